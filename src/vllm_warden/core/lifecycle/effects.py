"""What the core asks the shell to do. Imperative; each one is data, and none returns anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.lifecycle.found import FoundEngine
from vllm_warden.core.model import Settings


@dataclass(frozen=True, slots=True)
class Effect:
    """Base of all effects."""


@dataclass(frozen=True, slots=True)
class ObserveGate(Effect):
    """Look at model, program, port and GPUs; answer with GateReported of the same number."""

    number: int


@dataclass(frozen=True, slots=True)
class EndRemains(Effect):
    """Kill what earlier attempts of this instance left in our own groups."""


@dataclass(frozen=True, slots=True)
class Launch(Effect):
    """Start an attempt; answer with Launched or LaunchFailed.

    ``without_caches`` True: what was compiled before may be damaged, and is put aside.
    """

    attempt: int
    settings: Settings
    gpu_indices: tuple[int, ...]
    without_caches: bool = False


@dataclass(frozen=True, slots=True)
class TakeOver(Effect):
    """Watch an attempt of an earlier daemon as if it had been launched by this one.

    One that has ended meanwhile is answered with ProcessExited.
    """

    found: FoundEngine


class StopSignal(IntEnum):
    """The two signals that ask an engine to end (signal(7))."""

    INTERRUPT = 2
    TERMINATE = 15


@dataclass(frozen=True, slots=True)
class Signal(Effect):
    """Send a signal to the parent process of the attempt."""

    attempt: int
    number: StopSignal


@dataclass(frozen=True, slots=True)
class FollowRequests(Effect):
    """Tell with RequestsLeft how far the drain is, until the attempt is over."""

    attempt: int


@dataclass(frozen=True, slots=True)
class ReleaseAttempt(Effect):
    """Kill what is left of the attempt, wait until it is gone, answer with AttemptReleased."""

    attempt: int


@dataclass(frozen=True, slots=True)
class CollectEvidence(Effect):
    """As ReleaseAttempt, then gather; answer with EvidenceGathered."""

    attempt: int


@dataclass(frozen=True, slots=True)
class ProbeLoad(Effect):
    """Send an idle engine so many short requests at once; answer with LoadProbed.

    Each prompt has ``prompt_tokens`` tokens with numbers below ``vocabulary``.
    """

    attempt: int
    requests: int
    prompt_tokens: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class ArmTimer(Effect):
    """Answer with TimerElapsed of the same number after so many seconds."""

    number: int
    after_seconds: float


@dataclass(frozen=True, slots=True)
class NoteForgotten(Effect):
    """Keep with the attempt that nothing is learned of it, for whoever takes it over."""

    attempt: int


@dataclass(frozen=True, slots=True)
class RecordIncident(Effect):
    """Keep one failure with everything that explains it.

    ``continues`` True: nothing has outlived the soak since the failure before, so it is one more
    failure of the open incident.
    """

    attempt: int
    diagnosis: Diagnosis
    decision: Decision
    evidence: Evidence = field(repr=False)
    settings_before: Settings
    settings_after: Settings | None
    continues: bool = False


@dataclass(frozen=True, slots=True)
class RecoverIncident(Effect):
    """The engine serves again; the open incident stays open until that has lasted."""

    recovery: str


@dataclass(frozen=True, slots=True)
class ResolveIncident(Effect):
    """Close the open incident of the instance, saying how it ended."""

    resolution: str


@dataclass(frozen=True, slots=True)
class Announce(Effect):
    """One line of the event stream (docs/reference/events.md)."""

    event: str
    text: str
    data: Mapping[str, object] = field(default_factory=dict)
