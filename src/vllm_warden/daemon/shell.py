"""What all parts of the shell share: ports, lanes, live attempts, and the way to post events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from vllm_warden.config.translate import Translated
from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.lifecycle.events import Event
from vllm_warden.core.lifecycle.states import Instance
from vllm_warden.core.model import GpuReading
from vllm_warden.daemon.config_file import ConfigFile
from vllm_warden.daemon.live_attempt import LiveAttempt
from vllm_warden.daemon.loop import Loop
from vllm_warden.daemon.ports import (
    AbsentFromSource,
    Adopter,
    Clock,
    EngineProbe,
    Gpus,
    Groups,
    Health,
    KernelLog,
    LogBackend,
    ModelProbe,
    Notifier,
    ProcessWatch,
    SharedMemory,
    Spawner,
    StartLock,
)
from vllm_warden.daemon.record import Recorder
from vllm_warden.daemon.threads import Lane
from vllm_warden.daemon.timers import Timers

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ports:
    """The world, behind protocols; wiring.py puts the real adapters in."""

    clock: Clock
    log_backend: LogBackend
    groups: Groups
    spawner: Spawner
    watch: ProcessWatch
    gpus: Gpus
    health: Health
    engine_probe: EngineProbe
    model_probe: ModelProbe
    absent_from_source: AbsentFromSource
    notifier: Notifier
    port_holder: Callable[[str, int], str | None]
    become_subreaper: Callable[[], None]
    reap_orphans: Callable[[Sequence[int]], Sequence[int]]
    earlier: Adopter
    shared_memory: SharedMemory
    unit_goes_on: Callable[[], bool]
    lock_start: Callable[[Sequence[str]], StartLock | str]
    """By GPU UUIDs; instead of the lock, who has it."""
    kernel_log: KernelLog | None = None
    """None where there is no journal."""


@dataclass(slots=True)
class Lanes:
    """Threads for what may block, one lane for each kind of hang."""

    nvml: Lane = field(default_factory=lambda: Lane("NVML", 5.0))
    processes: Lane = field(default_factory=lambda: Lane("the process scan", 5.0))
    probes: Lane = field(default_factory=lambda: Lane("the engine probe", 60.0, threads=4))
    launches: Lane = field(default_factory=lambda: Lane("the launch", 30.0, threads=4))
    evidence: Lane = field(default_factory=lambda: Lane("the log's end", 10.0, threads=8))
    kernel_log: Lane = field(default_factory=lambda: Lane("the kernel's log", 2.0))
    old_logs: Lane = field(default_factory=lambda: Lane("an earlier log", 10.0, threads=2))
    tidying: Lane = field(default_factory=lambda: Lane("tidying up", 90.0, threads=2))
    diagnosis: Lane = field(default_factory=lambda: Lane("the diagnosis", 20.0, threads=2))
    sources: Lane = field(default_factory=lambda: Lane("the engine's source", 150.0))

    def close(self) -> None:
        for lane in (
            self.nvml,
            self.processes,
            self.probes,
            self.launches,
            self.evidence,
            self.kernel_log,
            self.old_logs,
            self.tidying,
            self.diagnosis,
            self.sources,
        ):
            lane.close()


@dataclass(slots=True)
class GpuView:
    """The newest readings of all GPUs, or why there are none."""

    readings: tuple[GpuReading, ...] = ()
    problem: str | None = "not read yet"


@dataclass(slots=True)
class Shell:
    """One daemon's working parts."""

    ports: Ports
    loop: Loop
    timers: Timers
    recorder: Recorder
    instances: Mapping[str, Translated]
    state_directory: Path
    max_concurrent_starts: int
    environment: Mapping[str, str] = field(repr=False)
    lanes: Lanes = field(default_factory=Lanes)
    live: dict[str, LiveAttempt] = field(default_factory=dict)
    launching: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    gpu_view: GpuView = field(default_factory=GpuView)
    closing: bool = False
    interrupted: bool = False
    """A person at the keyboard ended the daemon: that is never a restart."""
    config: ConfigFile | None = None
    kept_descriptors: dict[str, int] = field(default_factory=dict)
    """Writing ends of logs that systemd kept since an earlier daemon, by ``descriptor_name``."""
    checked_versions: set[str] = field(default_factory=set)
    start_locks: dict[str, StartLock] = field(default_factory=dict)
    """Of instances whose start measures memory just now."""
    admission: asyncio.Lock = field(default_factory=asyncio.Lock)
    line_listeners: set[Callable[[str, int, Sequence[LogRecord]], None]] = field(
        default_factory=set
    )
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def post(self, name: str, event: Event) -> None:
        self.loop.post(name, event)

    def now(self) -> float:
        return self.ports.clock.now_seconds()

    def instance(self, name: str) -> Instance:
        return self.loop.instances[name]

    def start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run work beside the loop; an exception in it is a bug and is reported."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("internal-error", exc_info=error)

    async def cancel_tasks(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
