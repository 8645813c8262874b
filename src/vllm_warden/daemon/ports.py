"""What the daemon needs of the world; adapters satisfy these protocols structurally.

Every call that may wait is either async or documented as quick. Fakes in ``tests/fakes`` are
trusted only because ``tests/contracts`` runs one suite against the fake and the real adapter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from vllm_warden.core.diagnose.evidence import HostLimits, LogRecord
from vllm_warden.core.model import GpuReading, ProcessIdentity, RemainingProcess, SharedFile
from vllm_warden.core.plan.spec import EngineFacts, LaunchPlan, ModelFacts


class Clock(Protocol):
    def now_seconds(self) -> float:
        """CLOCK_BOOTTIME of this boot."""

    def wall_seconds(self) -> float:
        """Seconds since the epoch; display only."""

    def boot_id(self) -> str: ...

    def jitter_fraction(self) -> float:
        """Uniform in [0, 1)."""


class LogStream(Protocol):
    """One attempt's stdout and stderr: written by the engine, read back by us.

    Contract (journal stream and file alike): lines come back in the order they were written, once
    each; of a line longer than 16 KiB the begin comes back, as one record that ends with how much
    was left out, and no part of it ever comes back as a record of its own; empty lines may be
    dropped; trailing blanks may be stripped, leading ones are kept; a NUL byte ends a line; bytes
    that are not UTF-8 come back with U+FFFD. Our own nonce and END markers never come back as
    records.
    """

    @property
    def writer_fd(self) -> int:
        """The descriptor to hand to the child as stdout and stderr."""

    def start_reading(self, deliver: Callable[[Sequence[LogRecord]], None]) -> None:
        """Follow the stream in a thread of its own; ``deliver`` is called in that thread."""

    def expect_more(self, expecting: bool) -> None:
        """True: something is about to come (poll every 10 ms); False: sleep until woken."""

    def finish(self, limit_seconds: float = 2.0) -> bool:
        """Write END + nonce and wait until it has been read back. False: evidence is incomplete.

        Blocks up to the limit; call it from a worker thread. All records up to the marker have
        been delivered when it returns True.
        """

    def close(self) -> None: ...


class LogBackend(Protocol):
    """Where engine output goes: the journal, or one file per attempt."""

    name: str

    def self_test(self) -> str | None:
        """None when our own lines can be read back, otherwise why not."""

    def open_stream(self, instance: str, attempt: int, launch_id: str) -> LogStream: ...

    def resume_stream(
        self, instance: str, attempt: int, launch_id: str, writer_fd: int | None
    ) -> LogStream:
        """The stream of an earlier daemon, read from its begin. Raises OSError.

        ``writer_fd`` is the engine's own output, which the stream owns from now on, None where it
        could not be had; of the launch id its first 8 digits will do.
        """

    def read_attempt(
        self, instance: str, attempt: int, launch_id: str, last_lines: int | None
    ) -> Sequence[LogRecord]:
        """Lines of an attempt that may be long over, oldest first (for ``logs``).

        The newest ones only, where they take more than 8 MiB of memory.
        """


class KernelLog(Protocol):
    """The kernel's own messages, where this user may read them."""

    def lines(self, since_seconds: float) -> Sequence[str]:
        """Those since that CLOCK_BOOTTIME that may explain the end of a process, oldest first.

        Empty where they cannot be read. Blocks: worker thread only.
        """


class AttemptGroup(Protocol):
    """The processes of one attempt: a cgroup, or a process group where there is no cgroup2."""

    path: str
    instance: str
    attempt: int
    launch_prefix: str
    """First 8 hex digits of the launch id; empty, with attempt 0, for a group of the instance that
    bears no attempt's name."""
    kind: str
    """``cgroup`` or ``process_group``."""

    def pids(self) -> tuple[int, ...]:
        """Every process in it, zombies left out."""

    def is_empty(self) -> bool: ...

    def kill(self) -> None:
        """SIGKILL to all of it; returns at once."""

    def remove(self) -> None:
        """Remove the empty group; ignores one that is gone already."""


class Groups(Protocol):
    """Makes attempt groups below the warden's own root, and finds leftovers there."""

    kind: str

    def create(self, instance: str, attempt: int, launch_id: str) -> AttemptGroup: ...

    def leftovers(self) -> Sequence[AttemptGroup]:
        """Groups of earlier attempts of this state directory that still hold processes."""

    def strange(self) -> Sequence[str]:
        """What else lies in our tree, one sentence each; nothing proves that it is ours."""

    def remove_empty(self) -> None:
        """Remove what holds none. Before the first launch only: a new group is empty at first."""

    def oom_kills(self) -> int:
        """The unit's oom_kill counter, 0 where there is none."""

    def memory_limit_bytes(self) -> int | None: ...


class Child(Protocol):
    """One spawned ``vllm serve`` parent process."""

    identity: ProcessIdentity

    def signal(self, number: int) -> bool:
        """Send a signal through the pidfd; False when the process is gone."""

    def watch_exit(self, on_exit: Callable[[int | None], None]) -> None:
        """Call ``on_exit(status)`` in the event loop once it has exited and been reaped."""


class Adopter(Protocol):
    """Takes up processes that an earlier daemon spawned; satisfied without acting on them."""

    def leader(self, pids: Sequence[int]) -> ProcessIdentity | None:
        """The process of the group that leads its session and is no child of the others."""

    def adopt(self, identity: ProcessIdentity) -> Child | None:
        """None when it is no longer exactly that process."""

    def words(self, pid: int) -> Sequence[str]:
        """Its command line."""

    def variable(self, pid: int, name: str) -> str | None:
        """A variable of the environment that it was started with."""

    def output_of(self, pid: int) -> int | None:
        """A descriptor of our own for its standard output, where that is a journal stream."""


class Spawner(Protocol):
    def spawn(self, plan: LaunchPlan, group: AttemptGroup, output_fd: int) -> Child:
        """Start the plan in its own session and in ``group``. Raises SpawnError."""


class ProcessWatch(Protocol):
    """Looks at /proc for the processes of an attempt."""

    def engine_processes(self, pids: Sequence[int], parent_pid: int) -> dict[int, str]:
        """Pid -> title of engine core and worker processes (``VLLM::EngineCore``...)."""

    def watch_end(self, pid: int, on_end: Callable[[], None]) -> bool:
        """Call ``on_end`` in the event loop when the process ends (zombie included)."""

    def listens(self, pids: Sequence[int], port: int) -> bool:
        """True when one of the processes owns a listening TCP socket on that port."""

    def limits(self, pid: int) -> HostLimits: ...

    def address_space_bytes(self, pids: Sequence[int]) -> int | None:
        """Largest VmSize among them."""

    def remaining(self, pids: Sequence[int]) -> Sequence[RemainingProcess]:
        """Which of them are still there, with what the kernel says of each."""


class SharedMemory(Protocol):
    """What processes keep in /dev/shm: it stays when they are killed. Worker threads only."""

    def of(self, pids: Sequence[int]) -> frozenset[SharedFile]:
        """What these processes have open or mapped."""

    def remove_unused(self, files: frozenset[SharedFile]) -> Sequence[str]:
        """Remove those of the files that no process uses any more; their names."""


class StartLock(Protocol):
    """The right to start on some GPUs, against every other warden of the host."""

    def release(self) -> None:
        """Again and again if need be."""


class Gpus(Protocol):
    """NVML. Quick calls that may hang in a broken driver: run them in the NVML thread only."""

    def memory(self) -> Sequence[GpuReading]:
        """All GPUs without holders. Raises GpusUnavailable when NVML cannot be used."""

    def memory_with_holders(self) -> Sequence[GpuReading]: ...


class RequestCounts(Protocol):
    """What an engine says of its requests; None where it does not export it."""

    @property
    def requests_served(self) -> int | None: ...

    @property
    def requests_running(self) -> int | None: ...

    @property
    def requests_waiting(self) -> int | None: ...


class Health(Protocol):
    async def check(self, host: str, port: int, timeout_seconds: float) -> int | None:
        """HTTP status of /health, None when refused or late."""

    async def generate_one_token(
        self, host: str, port: int, model: str, api_key: str | None, timeout_seconds: float
    ) -> str | None:
        """None when one token was generated, otherwise why not."""

    async def metrics(self, host: str, port: int) -> RequestCounts | None:
        """None when /metrics does not answer."""

    async def complete(
        self,
        host: str,
        port: int,
        model: str,
        api_key: str | None,
        *,
        prompts: Sequence[Sequence[int]],
        timeout_seconds: float,
    ) -> Sequence[Awaitable[str | None]]:
        """One completion of a few tokens for each prompt of token ids, not started yet.

        Each gives None when it was answered, otherwise why not; cancelling one hangs up.
        """


class EngineProbe(Protocol):
    def facts(self, command: Sequence[str], *, with_flags: bool = False) -> EngineFacts:
        """Blocks up to seconds: worker thread only. Never raises; ``problem`` says why not."""


class AbsentFromSource(Protocol):
    def __call__(
        self, command: Sequence[str], texts: Sequence[str], functions: Sequence[str]
    ) -> frozenset[str] | None:
        """Of these, what the engine's installed source does not hold; None when it cannot tell.

        Blocks for seconds: worker thread only.
        """


class ModelProbe(Protocol):
    def facts(self, model: str) -> ModelFacts:
        """Blocks up to seconds at a first look: worker thread only. Never raises.

        Unknown stays None.
        """


class Notifier(Protocol):
    @property
    def is_active(self) -> bool:
        """False where nobody listens: nothing needs to be told then."""

    def ready(self) -> None: ...

    def status(self, text: str) -> None: ...

    def watchdog(self) -> None: ...

    def stopping(self) -> None: ...

    def keep(self, name: str, fd: int) -> None:
        """Have the descriptor kept for the next daemon, under that name."""

    def forget(self, name: str) -> None: ...

    def kept(self) -> Mapping[str, int]:
        """What an earlier daemon had kept; each descriptor is handed over once."""
