"""One made-up host, model and story: what is really the case, and what an operator asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from benchmarks.convergence.eras import Era

GIB = 1 << 30
MIB = 1 << 20
BLOCK_TOKENS = 16

Value = bool | int | float | str
Settings = Mapping[str, Value]


class Wall(Enum):
    """What a start or a running engine can run into, in the order of a start."""

    FLAG = "bad flag"
    INIT = "start-up check"
    LOAD = "weights"
    PROFILE_FORWARD = "profiled forward pass"
    PROFILE_SAMPLER = "profiled sampler"
    DISTURBED = "profiling disturbed"
    KV_PLAN = "KV cache too small"
    STATE_BLOCKS = "state blocks"
    KV_ALLOC = "KV allocation"
    CAPTURE = "graph capture"
    WARMUP = "sampler warm-up"
    FULL_BATCH = "first full batch"
    SPIKE = "spike under load"
    EXIT = "unrelated exit"


@dataclass(frozen=True, slots=True)
class Truth:
    """Hidden values of one GPU (the worst rank). All sizes are bytes.

    ``act_fixed`` + ``act_per_token`` x tokens is the forward pass, ``row_factor`` scales the
    sampler's bytes, ``fragmentation`` is what the allocator needs beyond the bytes profiled,
    ``drift`` what kernels leave behind after profiling, ``jitter`` its spread between attempts.
    ``graphs_full`` belongs to all capture sizes, ``graphs_front`` of it to the largest alone;
    ``estimate_factor`` belongs to vLLM's estimate of it.
    """

    era: Era
    total: int
    ranks: int
    weights: int
    context: int
    nccl: int
    act_fixed: int
    act_per_token: int
    vocab: int
    row_factor: float
    layers: int
    kv_heads: int
    head_dim: int
    graphs_full: int
    estimate_factor: float
    fragmentation: float
    drift: int
    jitter: int
    state_page: int = 0
    graphs_front: float = 0.0
    typical_tokens: int = 4096
    expert_parallel: bool = False
    gpu_name: str = "NVIDIA H100 80GB HBM3"
    model: str = "/srv/models/heron"
    architecture: str = "LlamaForCausalLM"

    @property
    def kv_per_token(self) -> int:
        heads = max(1, self.kv_heads // self.ranks)
        return 2 * heads * self.head_dim * 2 * self.layers


@dataclass(frozen=True, slots=True)
class Move:
    """The neighbour's memory becomes ``to_bytes``: at a time, or when an attempt gets there.

    ``at_wall`` fires once, the first time that any attempt reaches that stage.
    """

    to_bytes: int
    at_seconds: float | None = None
    at_wall: Wall | None = None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Memory that is not the engine's own. ``kind``: foreign, ownerless, or own remains."""

    start_bytes: int
    moves: tuple[Move, ...] = ()
    kind: str = "foreign"

    @property
    def final_bytes(self) -> int:
        return self.moves[-1].to_bytes if self.moves else self.start_bytes

    @property
    def leaves(self) -> bool:
        return bool(self.moves) and self.final_bytes < self.start_bytes


@dataclass(frozen=True, slots=True)
class Load:
    """What users do, in seconds after ready: None is never. ``exits`` ends attempts 1..n."""

    full_batch_after: float | None = 120.0
    spike_bytes: int = 0
    spike_after: float = 900.0
    exits: int = 0
    exit_after: float = 400.0
    prompts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Operator:
    """What was asked for and what may be moved: knob -> (lowest, highest), else never.

    ``written`` are the bounds as in the configuration, None where a default is to hold.
    """

    asked: Settings
    ranges: Mapping[str, tuple[float, float]]
    written: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    share: bool = False
    bad_flag: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Number, family, hidden truth, and everything that happens."""

    number: int
    family: str
    seed: str
    truth: Truth
    operator: Operator
    neighbour: Neighbour | None = None
    load: Load = field(default_factory=Load)
