"""The shell's side of one attempt: its processes, its log, and what was seen of it so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from vllm_warden.core.diagnose.evidence import HostLimits, LogRecord
from vllm_warden.core.diagnose.phases import PhaseTracker
from vllm_warden.core.launch_id import launch_prefix
from vllm_warden.core.model import MemorySample, Phase, SharedFile
from vllm_warden.core.plan.spec import InstanceSpec, LaunchPlan
from vllm_warden.daemon.kept_lines import KeptLines
from vllm_warden.daemon.ports import AttemptGroup, Child, LogStream

SAMPLES_KEPT = 4000
SAMPLE_STEP_BYTES = 16 << 20
"""Smaller changes of used memory are noise, and are stored only once a minute."""
SAMPLE_AT_LEAST_SECONDS = 60.0


@dataclass(slots=True)
class LiveAttempt:
    """One launch while it lives, and until its evidence has been gathered."""

    instance: str
    number: int
    spec: InstanceSpec
    """As it was launched: the settings file may say something else by now."""
    plan: LaunchPlan
    group: AttemptGroup
    stream: LogStream
    launched_seconds: float
    launched_wall_seconds: float
    oom_kills_at_launch: int
    child: Child | None = None
    exited: bool = False
    exit_status: int | None = None
    ready: bool = False
    probe_problem: str | None = None
    tracker: PhaseTracker = field(default_factory=PhaseTracker)
    phase: Phase = Phase.ARGS
    engine: dict[int, str] = field(default_factory=dict)
    pids_seen: set[int] = field(default_factory=set)
    limits: HostLimits = field(default_factory=HostLimits)
    address_space_bytes: int | None = None
    address_space_settled: bool = False
    address_space_seen_bytes: int | None = None
    progress_seconds: float = 0.0
    lines: KeptLines = field(default_factory=KeptLines)
    samples: deque[MemorySample] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    gpu_total_bytes: dict[int, int] = field(default_factory=dict)
    gpu_cuda_total_bytes: dict[int, int] = field(default_factory=dict)
    shared_files: frozenset[SharedFile] = frozenset()
    """What its processes were seen to use in /dev/shm."""
    caches_aside: tuple[str, ...] = ()
    """Compile caches that were moved before its launch, by their new names."""
    log_is_whole: bool = True
    """False where the begin of the log, written under an earlier daemon, cannot be had."""

    @property
    def reached(self) -> Phase:
        """How far it came; the log of an adopted one may not say that it was ready."""
        return Phase.SERVING if self.ready else self.phase

    @property
    def descriptor_name(self) -> str:
        """Under which the writing end of its log is kept for the next daemon."""
        return descriptor_name(self.instance, self.number, self.plan.launch_id)

    def take_records(self, records: Sequence[LogRecord]) -> list[Phase]:
        """Keep the lines that may matter and return the phases they entered."""
        entered: list[Phase] = []
        for record in records:
            phase = self.tracker.feed(record.text)
            has_entered = phase is not None and phase is not Phase.SHUTDOWN
            self.lines.take(record, entered_phase=has_entered)
            if phase is not None and has_entered:
                self.phase = phase
                entered.append(phase)
        return entered

    def records(self) -> tuple[LogRecord, ...]:
        return self.lines.records()

    @property
    def lost_lines(self) -> int:
        """How many lines of the log are not kept in memory."""
        return self.lines.lost_lines

    @property
    def lost_errors(self) -> bool:
        """True when a line is missing that may name the cause: the evidence is incomplete."""
        return self.lines.lost_errors

    def take_sample(self, at_seconds: float, used_bytes: dict[int, int]) -> bool:
        """Keep a memory sample if it says something new; True when memory has moved."""
        last = self.samples[-1] if self.samples else None
        moved = last is None or any(
            abs(used - last.used_bytes.get(gpu, 0)) >= SAMPLE_STEP_BYTES
            for gpu, used in used_bytes.items()
        )
        due = last is not None and at_seconds - last.at_seconds >= SAMPLE_AT_LEAST_SECONDS
        if moved or due or (last is not None and last.phase is not self.phase):
            self.samples.append(MemorySample(at_seconds, self.phase, used_bytes))
        return moved


def descriptor_name(instance: str, attempt: int, launch_id: str) -> str:
    """Also where only the first 8 digits of the launch id are known."""
    return f"{instance}-{attempt}-{launch_prefix(launch_id)}"
