"""One made-up host and model: what is really the case, hidden from the daemon."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

GIB = 1 << 30
MIB = 1 << 20

Value = bool | int | float | str
Settings = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Truth:
    """Hidden values of one engine's GPUs; all sizes are bytes of one rank.

    ``weights`` has one size per rank: the first ranks hold more. The forward pass is
    ``forward_fixed`` + ``forward_slope`` x tokens, rounded up to ``token_tile``, and
    ``attention_slope`` for each position of the context, of which a real full batch needs
    ``attention_factor`` times what profiling saw. ``sampler`` are the tensors per row and
    vocabulary entry in order of allocation, the vocabulary padded to ``vocab_tile``. A graph of s
    tokens takes ``graph_base`` + ``graph_slope`` x s ** ``graph_power``, the first one
    ``graph_first`` more; ``estimate_factor`` of all is in the budget, 0 where the version has none.
    ``growth`` is memory outside of torch that profiling counts; ``workspace`` stays behind after
    it; ``waste`` is the share of large tensors that the allocator loses; ``jitter`` is what the
    context may take more from launch to launch.
    """

    seed: str
    version: str
    total: int
    weights: tuple[int, ...]
    context: int
    channel: int
    forward_fixed: int
    forward_slope: int
    token_tile: int
    attention_slope: int
    attention_factor: float
    sampler: tuple[float, ...]
    vocab: int
    vocab_tile: int
    layers: int
    kv_heads: int
    head_dim: int
    graph_first: int
    graph_base: int
    graph_slope: float
    graph_power: float
    estimate_factor: float
    growth: int
    workspace: int
    waste: float
    jitter: int

    @property
    def ranks(self) -> int:
        return len(self.weights)


def write(truth: Truth, path: Path) -> None:
    path.write_text(json.dumps(asdict(truth)))


def read(path: Path) -> Truth:
    """Raises OSError, ValueError."""
    values = json.loads(path.read_text())
    values["weights"], values["sampler"] = tuple(values["weights"]), tuple(values["sampler"])
    return Truth(**values)
