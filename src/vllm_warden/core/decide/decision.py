"""What the decision stage answers with: the remedy chosen, why, at which price."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vllm_warden.core.model import SettingValue


class Remedy(StrEnum):
    """What is to be done after a failure."""

    NONE = "none"
    RELAUNCH = "relaunch"
    """Start again unchanged."""
    RELAUNCH_WITH = "relaunch_with"
    """Start again with changed settings."""
    WAIT = "wait"
    """Start again unchanged as soon as the gate finds what is missing (memory, port)."""
    HOLD = "hold"
    """Wait for the operator, who could change something."""
    GIVE_UP = "give_up"
    """This cannot work as configured."""


@dataclass(frozen=True, slots=True)
class Change:
    """One setting that the next attempt runs with; None means the engine's default.

    ``after`` is None only on the way back from settings that were given for one launch.
    """

    setting: str
    before: SettingValue | None
    after: SettingValue | None


@dataclass(frozen=True, slots=True)
class Useless:
    """A setting that people would try, and why it does not help here."""

    setting: str
    why: str


@dataclass(frozen=True, slots=True)
class Price:
    """What the remedy costs; None means unchanged or not known (``note`` says which)."""

    sequences_before: int | None = None
    sequences_after: int | None = None
    kv_tokens_before: int | None = None
    kv_tokens_after: int | None = None
    kv_bytes_lost: int | None = None
    max_model_len_before: int | None = None
    max_model_len_after: int | None = None
    concurrency_fraction: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One remedy with its reason (a sentence), its arithmetic (lines) and its price.

    ``delay_seconds`` is how long to wait before the next launch asks the gate.
    ``options`` are what a person could do, most promising first.
    """

    remedy: Remedy
    reason: str
    changes: tuple[Change, ...] = ()
    useless: tuple[Useless, ...] = ()
    arithmetic: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    price: Price | None = None
    delay_seconds: float = 0.0
