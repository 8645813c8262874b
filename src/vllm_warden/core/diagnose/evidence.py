"""What was gathered about one exit, before anyone has an opinion."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from vllm_warden.core.model import MemorySample, Phase, Settings

NEWEST_BYTES_MAX = 8 << 20
"""Of a log that is only looked at, so much of its end is kept in memory."""


class LogRecord(NamedTuple):
    """One line as the journal (or log file) gave it, without its line end.

    ``text`` is already redacted, and of a long line only its begin (``long_line``). ``pid`` is the
    writer's, where the backend knows it.
    ``number`` counts lines of the attempt from 1. A tuple as ``LogLine`` is.
    """

    number: int
    text: str
    pid: int | None = None
    at_seconds: float | None = None

    @property
    def memory_bytes(self) -> int:
        """About what it takes to keep it: one wide character makes a whole text wide."""
        widest = 1 if self.text.isascii() else 4
        return 200 + widest * len(self.text)


def newest(
    records: Iterable[LogRecord], last_lines: int | None, bytes_max: int = NEWEST_BYTES_MAX
) -> tuple[LogRecord, ...]:
    """The last so many records, oldest first, within so many bytes; with None really all."""
    if last_lines is None:
        return tuple(records)
    kept: deque[LogRecord] = deque()
    kept_bytes = 0
    for record in records:
        kept.append(record)
        kept_bytes += record.memory_bytes
        while kept_bytes > bytes_max or len(kept) > last_lines:
            kept_bytes -= kept.popleft().memory_bytes
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class LostProcess:
    """An engine process that vanished while its parent lived on (title as vLLM sets it)."""

    pid: int
    title: str
    rank: int | None
    status: int | None = None


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Memory limits of the attempt itself; None means no limit, or not known.

    ``address_space_used_bytes`` is the largest VmSize of one engine process seen up to the
    beginning of profiling; it belongs to ``address_space_bytes`` (RLIMIT_AS). ``memory_bytes``
    is the limit of the memory cgroup.
    """

    address_space_bytes: int | None = None
    address_space_used_bytes: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything known about one exit.

    ``exit_status`` is as ``subprocess`` counts: negative for a signal, None when unknown.
    ``incomplete`` means that lines may be missing; incomplete evidence never moves a knob.
    ``reached`` is the last phase that the log showed while the attempt ran.
    ``oom_kills`` is the change of the unit's oom_kill counter during the attempt.
    """

    records: tuple[LogRecord, ...]
    incomplete: bool = False
    exit_status: int | None = None
    was_ready: bool = False
    reached: Phase | None = None
    lost_processes: tuple[LostProcess, ...] = ()
    kernel_lines: tuple[str, ...] = ()
    pids: frozenset[int] = frozenset()
    """Processes of the attempt that were seen, beside those that wrote lines or were lost."""
    gpu_addresses: frozenset[str] | None = None
    """PCI addresses of the attempt's GPUs; None when unknown, empty when it has none."""
    oom_kills: int = 0
    limits: HostLimits = field(default_factory=HostLimits)
    settings: Settings = field(default_factory=dict)
    engine_version: str | None = None
    memory: tuple[MemorySample, ...] = ()
    memory_total_bytes: Mapping[int, int] = field(default_factory=dict)
    """What CUDA calls the total of each of the attempt's GPUs, where NVML told it."""
    note: str | None = None
    """Why the warden itself ended the attempt (stalled, probe failed, lost core), if it did."""
