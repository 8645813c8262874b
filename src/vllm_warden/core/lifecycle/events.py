"""What may happen to an instance. Past tense; time and jitter arrive with the event."""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence, LostProcess
from vllm_warden.core.lifecycle.found import FoundEngine
from vllm_warden.core.lifecycle.trial import Trial
from vllm_warden.core.model import Figures, Phase, ProcessIdentity, Settings
from vllm_warden.core.plan.gate import GateReport


@dataclass(frozen=True, slots=True)
class Event:
    """``at_seconds`` is CLOCK_BOOTTIME."""

    at_seconds: float


@dataclass(frozen=True, slots=True)
class StartRequested(Event):
    by: str
    trial: Trial | None = None


@dataclass(frozen=True, slots=True)
class StopRequested(Event):
    """``now`` skips the drain. ``keep_wanted`` is the daemon's own stop: wanted outlives it."""

    by: str
    now: bool = False
    keep_wanted: bool = False


@dataclass(frozen=True, slots=True)
class RestartRequested(Event):
    """``now`` skips the drain."""

    by: str
    now: bool = False
    trial: Trial | None = None


@dataclass(frozen=True, slots=True)
class HoldRequested(Event):
    by: str


@dataclass(frozen=True, slots=True)
class ResumeRequested(Event):
    by: str


@dataclass(frozen=True, slots=True)
class ForgetRequested(Event):
    """What was learned is no longer wanted."""

    by: str


@dataclass(frozen=True, slots=True)
class AcceptRequested(Event):
    """The configuration asks for ``engine`` by now: the settings in force."""

    by: str
    engine: Settings


@dataclass(frozen=True, slots=True)
class EngineFound(Event):
    """An earlier daemon launched this and did not see it end."""

    found: FoundEngine


@dataclass(frozen=True, slots=True)
class GateReported(Event):
    """The look at the world that was asked for with ``number`` has ended."""

    number: int
    report: GateReport


@dataclass(frozen=True, slots=True)
class AttemptEvent(Event):
    """Belongs to one attempt; a report of an older attempt is stale."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Launched(AttemptEvent):
    launch_id: str
    identity: ProcessIdentity


@dataclass(frozen=True, slots=True)
class LaunchFailed(AttemptEvent):
    reason: str
    hopeless: bool


@dataclass(frozen=True, slots=True)
class PhaseEntered(AttemptEvent):
    phase: Phase


@dataclass(frozen=True, slots=True)
class RequestsLeft(AttemptEvent):
    """While it is being stopped: ``left`` requests run or wait in the engine."""

    left: int


@dataclass(frozen=True, slots=True)
class BecameReady(AttemptEvent):
    """The first token came back from a socket that belongs to this attempt.

    ``figures`` are what its log has printed.
    """

    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotReadyYet(AttemptEvent):
    """It listens, but the probes do not succeed; ``reason`` is what the newest one saw."""

    reason: str


@dataclass(frozen=True, slots=True)
class BecameUnready(AttemptEvent):
    reason: str


@dataclass(frozen=True, slots=True)
class RequestsServed(AttemptEvent):
    """Requests answered by this attempt so far. ``idle``: none is running or waiting."""

    total: int
    idle: bool = False


@dataclass(frozen=True, slots=True)
class LoadProbed(AttemptEvent):
    """The built-in load has ended after ``sent`` requests; ``problem`` None: all were answered.

    ``busy``: it was broken off, or not sent, for real requests.
    """

    sent: int
    problem: str | None = None
    busy: bool = False


@dataclass(frozen=True, slots=True)
class EngineLost(AttemptEvent):
    """An engine core or worker process ended while its parent lives on."""

    process: LostProcess


@dataclass(frozen=True, slots=True)
class Stalled(AttemptEvent):
    """No progress of any kind for ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ProcessExited(AttemptEvent):
    """The parent process is gone and reaped; None where the status is not known."""

    status: int | None


@dataclass(frozen=True, slots=True)
class AttemptReleased(AttemptEvent):
    """Nothing of the attempt is left, but for what ``remains``."""

    remains: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceGathered(AttemptEvent):
    """Nothing of the attempt is left; what it left behind, and what that says.

    The diagnosis is made by the shell's own thread with the core's ``diagnose``: a hostile log
    may take it long, and the loop must not wait.
    """

    evidence: Evidence
    diagnosis: Diagnosis
    jitter_fraction: float


@dataclass(frozen=True, slots=True)
class TimerElapsed(Event):
    number: int
