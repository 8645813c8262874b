"""One scenario: hidden truth, what the operator asked for and allows, and who else is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from benchmarks.held_back.truth import Settings, Truth


class Moves(Enum):
    """What a neighbour does with its memory."""

    STAYS = "stays"
    LEAVES = "leaves"
    GROWS = "grows"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Memory of another process on the engine's first GPU. ``later`` is what it comes to."""

    now: int
    later: int
    moves: Moves


@dataclass(frozen=True, slots=True)
class Model:
    """What anybody may know of the model: its config.json and the size of its checkpoint."""

    name: str
    config: Mapping[str, object]
    checkpoint_bytes: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """``ranges`` are the operator's bounds, ``written`` those that stand in the configuration."""

    number: int
    family: str
    truth: Truth
    model: Model
    gpu_name: str
    asked: Settings
    ranges: Mapping[str, tuple[float, float]]
    written: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    share: bool = False
    neighbour: Neighbour | None = None
    bad_flag: str = ""

    @property
    def others(self) -> int:
        """What others hold in the end."""
        return 0 if self.neighbour is None else self.neighbour.later
