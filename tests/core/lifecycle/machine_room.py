"""A pretend world for the lifecycle: engines, gates and timers on a virtual clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.lifecycle import effects as fx
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.machine import RULES, is_impossible, step
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import ProcessIdentity
from vllm_warden.core.plan.gate import GateReport, WorldFault
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec

_HEAD = "(Worker_TP0 pid=9) ERROR 11-29 12:00:00 [multiproc_executor.py:900] "
PROFILE_SAMPLER_OOM = tuple(
    _HEAD + line
    for line in (
        "Traceback (most recent call last):",
        '  File "/s/vllm/v1/worker/gpu_worker.py", line 300, in determine_available_memory',
        '  File "/s/vllm/v1/worker/gpu_model_runner.py", line 4000, in _dummy_sampler_run',
        (
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
            "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when "
            "initializing the engine."
        ),
    )
)


@dataclass
class MachineRoom:
    """Carries out effects at once and keeps what a real shell would have pending."""

    spec: InstanceSpec
    instance: Instance = field(init=False)
    now: float = 1000.0
    alive: set[int] = field(default_factory=set)
    timers: dict[int, float] = field(default_factory=dict)
    looks: list[int] = field(default_factory=list)
    collecting: list[int] = field(default_factory=list)
    following: list[int] = field(default_factory=list)
    releasing: list[int] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)
    launches: list[fx.Launch] = field(default_factory=list)
    announced: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    incidents: list[fx.RecordIncident] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.instance = Instance(self.spec)

    def tell(self, event: ev.Event) -> None:
        before = self.instance
        assert not is_impossible(before, event), (before.state, event)
        self.instance, effects = step(before, event)
        rule = RULES.get((before.state, type(event)))
        if self.instance is not before and rule is not None:
            assert self.instance.state in rule.to, (before.state, type(event), self.instance.state)
        if self.instance.state is not before.state:
            self.states.append(self.instance.state)
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: fx.Effect) -> None:
        match effect:
            case fx.ObserveGate():
                self.looks.append(effect.number)
            case fx.ArmTimer():
                self.timers[effect.number] = self.now + effect.after_seconds
            case fx.Launch():
                self.launches.append(effect)
                self.alive.add(effect.attempt)
                identity = ProcessIdentity(4000 + effect.attempt, 1, "boot")
                self.tell(ev.Launched(self.now, effect.attempt, "abcd", identity))
            case fx.TakeOver():
                self.alive.add(effect.found.attempt)
            case fx.Signal():
                self.signals.append(effect.number)
            case fx.FollowRequests():
                self.following.append(effect.attempt)
            case fx.CollectEvidence():
                self.alive.discard(effect.attempt)
                self.collecting.append(effect.attempt)
            case fx.ReleaseAttempt():
                self.alive.discard(effect.attempt)
                self.releasing.append(effect.attempt)
            case fx.RecordIncident():
                self.incidents.append(effect)
            case fx.Announce():
                self.announced.append(effect.event)
                self.texts.append(effect.text)

    def open_gate(self, version: str | None = "0.32.0") -> None:
        """Answer the newest look: nothing is in the way."""
        report = GateReport(engine=EngineFacts(version, is_cpu=True))
        self.tell(ev.GateReported(self.now, self.looks.pop(), report))

    def close_gate(self, reason: str = "no such directory", *, hopeless: bool = False) -> None:
        report = GateReport(faults=(WorldFault("model", reason, hopeless),))
        self.tell(ev.GateReported(self.now, self.looks.pop(), report))

    def start(self, version: str | None = "0.32.0") -> None:
        self.tell(ev.StartRequested(self.now, "test"))
        self.open_gate(version)

    def ready(self) -> None:
        self.tell(ev.BecameReady(self.now, self.attempt))

    def is_in(self, state: State) -> bool:
        return self.instance.state is state

    @property
    def attempt(self) -> int:
        return self.instance.attempts_made

    def end(self, remains: str = "") -> None:
        """What was told to stop exits, and is released."""
        self.tell(ev.ProcessExited(self.now, self.attempt, 0))
        self.tell(ev.AttemptReleased(self.now, self.releasing.pop(), remains))

    def die(self, status: int | None = 1, *lines: str, incomplete: bool = False) -> None:
        """The parent exits with these lines in its log; evidence is gathered at once."""
        self.alive.discard(self.attempt)
        attempt = self.instance.attempt
        was_ready = attempt is not None and attempt.ready_since_seconds is not None
        self.tell(ev.ProcessExited(self.now, self.attempt, status))
        self.gather(*lines, status=status, incomplete=incomplete, was_ready=was_ready)

    def gather(
        self,
        *lines: str,
        status: int | None = 1,
        incomplete: bool = False,
        was_ready: bool = False,
    ) -> None:
        evidence = Evidence(
            tuple(LogRecord(number, line) for number, line in enumerate(lines, 1)),
            incomplete=incomplete,
            exit_status=status,
            was_ready=was_ready,
            settings=self.instance.attempt.settings if self.instance.attempt else {},
        )
        number = self.collecting.pop()
        self.tell(ev.EvidenceGathered(self.now, number, evidence, diagnose(evidence), 0.0))

    def advance(self, seconds: float) -> None:
        """Let time pass; timers fire in the order of their deadlines."""
        until = self.now + seconds
        while due := [(at, number) for number, at in self.timers.items() if at <= until]:
            at, number = min(due)
            del self.timers[number]
            self.now = max(self.now, at)
            self.tell(ev.TimerElapsed(self.now, number))
        self.now = until
