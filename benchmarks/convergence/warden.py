"""Plays a scenario under our own policy: the daemon's state machine, parser, gate and decisions.

The machine asks for effects as it does of the daemon's shell; here they happen in the scenario's
world, on its clock. Of the scenario the policy gets what the daemon would: the configuration,
the model's and the engine's public facts, NVML readings, and the log as text.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from benchmarks.convergence.boot import Outcome, boot
from benchmarks.convergence.log_text import log_of
from benchmarks.convergence.play import LAUNCHES_MAX, Game, with_defaults
from benchmarks.convergence.scenario import Scenario, Settings, Value, Wall
from benchmarks.convergence.seen import evidence_of, model_facts, phases_of, readings_of
from benchmarks.convergence.world import REMAINS_PID, World
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.lifecycle import effects as fx
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.machine import step
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import ProcessIdentity, RemainingProcess
from vllm_warden.core.plan.gate import GateReport
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, EngineFacts, InstanceSpec

ENOUGH_SECONDS = 14 * 24 * 3600.0
EVENTS_MAX = 20_000
SOAK_REQUESTS = 500
STANDS_STILL = (State.HELD, State.FAILED, State.STOPPED)


@dataclass(slots=True)
class Shell:
    """What carries the effects out; ``pending`` are events to come, by time."""

    scenario: Scenario
    world: World
    instance: Instance
    game: Game = field(default_factory=Game)
    pending: list[tuple[float, int, ev.Event]] = field(default_factory=list)
    outcome: Outcome | None = None
    lines: list[str] = field(default_factory=list)
    _count: int = 0

    def later(self, event: ev.Event) -> None:
        self._count += 1
        heapq.heappush(self.pending, (event.at_seconds, self._count, event))

    def tell(self, event: ev.Event) -> None:
        self.world.pass_to(event.at_seconds)
        self.instance, effects = step(self.instance, event)
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: fx.Effect) -> None:
        now = self.world.now
        match effect:
            case fx.ObserveGate():
                self.later(ev.GateReported(now + 0.05, effect.number, _report(self)))
            case fx.ArmTimer():
                self.later(ev.TimerElapsed(now + effect.after_seconds, effect.number))
            case fx.EndRemains():
                self.world.kill_remains()
            case fx.Launch():
                self._launch(effect)
            case fx.CollectEvidence():
                self._collect(effect.attempt)
            case fx.ReleaseAttempt():
                self.later(ev.AttemptReleased(now + 0.5, effect.attempt))
            case fx.RecordIncident():
                decision = effect.decision
                changes = ", ".join(
                    f"{one.setting} {one.before} -> {one.after}" for one in decision.changes
                )
                note = f"{decision.remedy.value} {changes}: {decision.reason}"
                self.game.notes.append("\n    ".join((note, *decision.arithmetic)))
            case _:
                pass

    def _launch(self, effect: fx.Launch) -> None:
        """The whole attempt is computed at once; its events are told at their times."""
        begun = self.world.now
        settings = _complete(self.scenario, effect.settings)
        outcome = boot(self.scenario, self.world, settings, effect.attempt)
        self.outcome, self.lines = outcome, log_of(self.scenario, outcome)
        self.game.attempts.append(outcome)
        attempt = effect.attempt
        identity = ProcessIdentity(4000 + attempt, 1, "boot")
        self.later(ev.Launched(begun, attempt, f"{attempt:016x}", identity))
        for phase in phases_of(self.lines):
            at = begun + 1 if outcome.ready_at is None else min(outcome.ready_at, begun + 1)
            self.later(ev.PhaseEntered(at, attempt, phase))
        if outcome.ready_at is not None:
            self.later(ev.BecameReady(outcome.ready_at, attempt))
            soak = self.instance.spec.restart.soak_seconds
            if outcome.ended_at - outcome.ready_at > soak + 60:
                at = outcome.ready_at + soak + 30
                self.later(ev.RequestsServed(at, attempt, SOAK_REQUESTS))
        if outcome.wall is not None:
            self.later(ev.ProcessExited(outcome.ended_at, attempt, _status(outcome)))

    def _collect(self, attempt: int) -> None:
        assert self.outcome is not None
        evidence = evidence_of(self.scenario, self.outcome, self.lines, self._in_force())
        at = self.world.now + 1.0
        jitter = 0.5
        self.later(ev.EvidenceGathered(at, attempt, evidence, diagnose(evidence), jitter))

    def _in_force(self) -> Settings:
        assert self.instance.attempt is not None
        return dict(self.instance.attempt.settings)  # type: ignore[arg-type]


def play_warden(scenario: Scenario) -> Game:
    """From the operator's start until it has stayed up or stands still."""
    return played(scenario).game


def played(scenario: Scenario) -> Shell:
    shell = Shell(scenario, World(scenario), Instance(spec_of(scenario)))
    shell.tell(ev.StartRequested(0.0, "operator"))
    for _ in range(EVENTS_MAX):
        if shell.instance.state in STANDS_STILL:
            shell.game.stopped = shell.instance.reason
            break
        launched_enough = len(shell.game.attempts) > LAUNCHES_MAX
        if not shell.pending or shell.world.now > ENOUGH_SECONDS or launched_enough:
            break
        shell.tell(heapq.heappop(shell.pending)[2])
    if not shell.game.attempts and not shell.game.stopped:
        shell.game.stopped = f"never launched: {shell.instance.reason}"
    return shell


def spec_of(scenario: Scenario) -> InstanceSpec:
    """The configuration as an operator would have written it."""
    operator, truth = scenario.operator, scenario.truth
    engine: dict[str, Value] = {"tensor_parallel_size": truth.ranks, **operator.asked}
    adapt = AdaptSpec(
        knobs={name: Bounds(min=low, max=high) for name, (low, high) in operator.written.items()},
        share_with_neighbours=operator.share,
    )
    return InstanceSpec(
        name="engine",
        model=truth.model,
        gpus=tuple(range(truth.ranks)),
        engine=dict(engine),
        extra_args=tuple(operator.bad_flag.split()),
        adapt=adapt,
    )


def _report(shell: Shell) -> GateReport:
    scenario, world = shell.scenario, shell.world
    return GateReport(
        gpus=readings_of(scenario, world),
        own_remains=(RemainingProcess(REMAINS_PID),) if world.kind == "remains" else (),
        engine=EngineFacts(version=scenario.truth.era.version, is_cpu=False),
        model=model_facts(scenario),
    )


def _complete(scenario: Scenario, settings: object) -> Settings:
    """The settings that the physics need, with those of the launch over the asked ones."""
    assert isinstance(settings, dict)
    return {**with_defaults(scenario), **settings}


def _status(outcome: Outcome) -> int:
    if outcome.wall is Wall.FLAG:
        return 2
    return 0 if outcome.ready_at is not None else 1
