"""What one instance is asked to be: the core's view of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_warden.core.model import Mode, Settings
from vllm_warden.core.plan.memory_model.model import Model


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far one knob may be moved; None means that the default of the knob's table holds.

    ``allowed`` False means never moved, whatever min and max say.
    """

    allowed: bool = True
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True, slots=True)
class AdaptSpec:
    """What the warden may change by itself, as the operator wrote it."""

    mode: Mode = Mode.ADAPT
    knobs: Mapping[str, Bounds] = field(default_factory=dict)
    min_concurrency_fraction: float = 0.25
    share_with_neighbours: bool = False


@dataclass(frozen=True, slots=True)
class RestartSpec:
    """Restart budgets and delays (design 4.3)."""

    startup_failures_max: int = 5
    startup_window_seconds: float = 6 * 3600
    unchanged_repeats_max: int = 2
    crashes_max: int = 5
    crash_window_seconds: float = 3600
    backoff_first_seconds: float = 5
    backoff_max_seconds: float = 300
    soak_seconds: float = 1800
    soak_requests: int = 100
    load_probe: bool = False


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """One supervised ``vllm serve``.

    ``gpus`` holds NVML indices or UUIDs; empty means a CPU engine (no gate, no GPU figures).
    ``engine`` is what was asked, in configuration order, without model, host and port.
    ``command`` may start with a wrapper (prlimit, numactl, nice, env).
    """

    name: str
    model: str
    gpus: tuple[int | str, ...]
    port: int = 8000
    host: str = "127.0.0.1"
    user: str | None = None
    command: tuple[str, ...] = ("vllm", "serve")
    environment: Mapping[str, str] = field(default_factory=dict)
    secret_environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    engine: Settings = field(default_factory=dict)
    extra_args: tuple[str, ...] = ()
    autostart: bool = True
    drain_seconds: float = 30
    stall_seconds: float = 600
    adapt: AdaptSpec = field(default_factory=AdaptSpec)
    restart: RestartSpec = field(default_factory=RestartSpec)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the engine's own installation says, asked in a child process; None is unknown.

    ``flags`` are the long options that ``vllm serve`` accepts (``--max-num-seqs``), empty when
    nobody asked. ``is_cpu`` is True for a ``+cpu`` build.
    """

    version: str | None = None
    is_cpu: bool | None = None
    flags: frozenset[str] = frozenset()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The few numbers of a model's config.json that decisions need; None is unknown.

    ``for_memory`` is all that the memory model needs of it.
    """

    config_hash: str = ""
    weight_bytes: int | None = None
    vocab_size: int | None = None
    max_position: int | None = None
    layers: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    architecture: str | None = None
    for_memory: Model | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """All that is needed to start one attempt; nothing is decided after this.

    ``argv`` starts with the resolved program; ``environment`` is complete (no inheritance).
    ``settings`` are the engine options in force, asked ones overlaid by learned or changed ones.
    """

    instance: str
    attempt: int
    launch_id: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    settings: Settings
    user: str | None = None
    working_directory: str = "/"
