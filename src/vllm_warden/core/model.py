"""The words that every stage shares: phases, failures, sites, and a few plain values.

Units are in the names: ``_bytes``, ``_seconds``, ``_fraction`` (0 to 1). Times named
``at_seconds`` are CLOCK_BOOTTIME of this boot; wall time exists for display only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

GIB = 1 << 30
MIB = 1 << 20

SettingValue = bool | int | float | str | list[object] | dict[str, object]
"""What an engine option may hold; lists and tables become JSON or several words in argv."""

Settings = Mapping[str, SettingValue]
"""Engine options by name, with underscores (``max_num_seqs``)."""

Figures = Mapping[str, int | float | str]
"""Typed numbers (and a few names) read from a log or counted, see docs/reference."""


class Phase(StrEnum):
    """Where an attempt is, in start-up order."""

    ARGS = "args"
    DOWNLOAD = "download"
    INIT_DEVICE = "init_device"
    LOAD = "load"
    PROFILE = "profile"
    KV_PLAN = "kv_plan"
    KV_ALLOC = "kv_alloc"
    KERNELS = "kernels"
    CUDAGRAPH = "cudagraph"
    WARMUP = "warmup"
    SERVING = "serving"
    SHUTDOWN = "shutdown"


PHASES_AFTER_KV = frozenset({Phase.KV_ALLOC, Phase.KERNELS, Phase.CUDAGRAPH, Phase.WARMUP})
"""Start-up phases in which the KV cache is already sized: the budget must leave room for them."""


class Failure(StrEnum):
    """What went wrong; a closed list (docs/reference/failures.md)."""

    NONE = "none"
    GPU_OUT_OF_MEMORY = "gpu_out_of_memory"
    GPU_MEMORY_TAKEN = "gpu_memory_taken"
    MEMORY_PROFILING_DISTURBED = "memory_profiling_disturbed"
    KV_CACHE_TOO_SMALL = "kv_cache_too_small"
    HOST_OUT_OF_MEMORY = "host_out_of_memory"
    SHARED_MEMORY_TOO_SMALL = "shared_memory_too_small"
    CONFIGURATION_INVALID = "configuration_invalid"
    PARALLELISM_INVALID = "parallelism_invalid"
    MODEL_UNSUPPORTED = "model_unsupported"
    MODEL_UNAVAILABLE = "model_unavailable"
    DEPENDENCY_MISMATCH = "dependency_mismatch"
    KERNEL_FAILURE = "kernel_failure"
    COMMUNICATION_FAILURE = "communication_failure"
    ILLEGAL_MEMORY_ACCESS = "illegal_memory_access"
    GPU_FAULT = "gpu_fault"
    ENGINE_STALLED = "engine_stalled"
    PORT_IN_USE = "port_in_use"
    REQUEST_TRIGGERED_CRASH = "request_triggered_crash"
    KILLED_BY_SIGNAL = "killed_by_signal"
    UNKNOWN = "unknown"


class Site(StrEnum):
    """What the memory that could not be had was for."""

    WEIGHTS = "weights"
    ACTIVATIONS = "activations"
    ENCODER = "encoder"
    LORA = "lora"
    KV_CACHE = "kv_cache"
    CUDA_GRAPHS = "cuda_graphs"
    SAMPLER = "sampler"
    POOLER = "pooler"
    KERNELS = "kernels"
    COMMUNICATION = "communication"


class Confidence(StrEnum):
    CERTAIN = "certain"
    LIKELY = "likely"
    EXTRAPOLATED = "extrapolated"


class Role(StrEnum):
    """What a finding is: the cause, or something that only follows from a cause."""

    CAUSE = "cause"
    CONSEQUENCE = "consequence"


class Mode(StrEnum):
    """What the operator allows: move knobs, only relaunch, or only say what it would do."""

    ADAPT = "adapt"
    RESTART = "restart"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asked for a change; recorded with it."""

    uid: int
    pid: int
    command: str


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that cannot be mistaken for another one with the same pid."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One file of /dev/shm: another one of the same name is not the same."""

    name: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that holds memory of one GPU; bytes is None where the driver will not say.

    ``gone`` True: there is no such process any more, the driver still keeps its memory.
    """

    pid: int
    used_bytes: int | None
    user: str = "?"
    command: str = "?"
    ours: bool = False
    gone: bool = False


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One NVML reading of one GPU. ``error`` set means unknown, and unknown never means free."""

    index: int
    uuid: str
    name: str
    total_bytes: int
    free_bytes: int
    holders: tuple[GpuHolder, ...] = ()
    error: str | None = None
    pci: str = ""
    """Address on the bus as NVML writes it (``00000000:3B:00.0``), empty when unknown."""
    lost: bool = False
    """Fallen off the bus, or in need of a reset: it does not come back by itself."""
    reserved_bytes: int = 0
    """Of the total, what driver and firmware keep; 0 where the driver does not tell."""

    @property
    def cuda_total_bytes(self) -> int:
        """What torch calls the total, and of which vLLM takes its share."""
        return self.total_bytes - self.reserved_bytes


@dataclass(frozen=True, slots=True)
class RemainingProcess:
    """One that was killed and is still there.

    ``waits_in`` is the kernel function in which it waits uninterruptibly (state D, proc(5)), where
    no signal reaches it; empty where the kernel does not tell, None where it is in another state.
    """

    pid: int
    name: str = ""
    waits_in: str | None = None


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Used bytes of each GPU (keyed by NVML index) at one moment of an attempt."""

    at_seconds: float
    phase: Phase
    used_bytes: Mapping[int, int]
