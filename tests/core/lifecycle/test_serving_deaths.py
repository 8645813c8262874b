"""Deaths under load: what counts as proof, what refills a budget, and when settings may move."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.lifecycle import effects as fx
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.found import FoundEngine
from vllm_warden.core.lifecycle.machine import step
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import (
    GIB,
    Confidence,
    Failure,
    GpuReading,
    Phase,
    ProcessIdentity,
    SettingValue,
)
from vllm_warden.core.plan.gate import GateReport
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec, ModelFacts
from vllm_warden.daemon import durable

TOTAL = 80 * GIB
SPEC = InstanceSpec("tiny", "/m", (0,), engine={"gpu_memory_utilization": 0.95})
OUT_OF_MEMORY = Diagnosis(
    Failure.GPU_OUT_OF_MEMORY,
    phase=Phase.SERVING,
    signature="serving-oom",
    confidence=Confidence.CERTAIN,
    figures={"tried_bytes": GIB, "free_bytes": GIB // 4, "total_bytes": TOTAL},
)
HOUR, DAY = 3600.0, 24 * 3600.0


class Life:
    """One instance on one GPU; each step of its life at a time of its own."""

    def __init__(self) -> None:
        self.instance = Instance(SPEC)
        self.now = 0.0
        self.incidents: list[fx.RecordIncident] = []
        self.launched: list[Mapping[str, SettingValue]] = []
        self.recovered: list[str] = []
        self.resolved: list[str] = []
        self.tell(ev.StartRequested(0.0, "test"))

    def tell(self, event: ev.Event) -> None:
        self.instance, effects = step(self.instance, event)
        self.incidents += [one for one in effects if isinstance(one, fx.RecordIncident)]
        self.recovered += [one.recovery for one in effects if isinstance(one, fx.RecoverIncident)]
        self.resolved += [one.resolution for one in effects if isinstance(one, fx.ResolveIncident)]

    def serve(self, seconds: float, requests: int = 100) -> None:
        """Through the gate, ready, and serving for so long."""
        if self.instance.state is State.BACKOFF:
            assert self.instance.timer is not None
            self.tell(ev.TimerElapsed(self.now, self.instance.timer))
        self.look()
        number = self.instance.attempts_made
        self.launched.append(self.instance.changes)
        self.tell(ev.Launched(self.now, number, "id", ProcessIdentity(number, 1, "b")))
        self.tell(ev.BecameReady(self.now, number))
        self.now += seconds
        self.tell(ev.RequestsServed(self.now, number, requests))

    def look(self) -> None:
        gpu = GpuReading(0, "GPU-0", "NVIDIA H100", TOTAL, TOTAL)
        seen = GateReport(gpus=(gpu,), engine=EngineFacts("0.15.1"), model=ModelFacts())
        assert self.instance.timer is not None
        self.tell(ev.GateReported(self.now, self.instance.timer, seen))

    def die(self, diagnosis: Diagnosis = OUT_OF_MEMORY) -> Remedy:
        number = self.instance.attempts_made
        self.tell(ev.ProcessExited(self.now, number, 1))
        evidence = Evidence((), exit_status=1, was_ready=True)
        self.tell(ev.EvidenceGathered(self.now, number, evidence, diagnosis, 0.0))
        return self.incidents[-1].decision.remedy

    def new_daemon(self) -> None:
        kept = durable.to_document(self.instance, "boot")
        self.instance = durable.from_document(SPEC, kept, "boot")
        self.tell(ev.StartRequested(self.now, "test"))

    def taken_over(self) -> None:
        """A new daemon finds the engine that serves, and learns that it is ready."""
        attempt = self.instance.attempt
        assert attempt is not None
        kept = durable.to_document(self.instance, "boot")
        self.instance = durable.from_document(SPEC, kept, "boot")
        found = FoundEngine(
            attempt.number,
            "id",
            attempt.settings,
            (0,),
            attempt.launched_seconds,
            attempt.identity,
            attempt.ready_since_seconds,
        )
        self.tell(ev.EngineFound(self.now, found))
        self.look()
        self.tell(ev.BecameReady(self.now, attempt.number))


def nothing(_: Life) -> None:
    pass


@pytest.mark.parametrize(
    ("pause", "remedy"),
    [(DAY - 2 * HOUR, Remedy.RELAUNCH_WITH), (DAY + HOUR, Remedy.RELAUNCH)],
)
@pytest.mark.parametrize("between", [nothing, Life.new_daemon])
def test_the_first_after_a_soak_changes_nothing_and_a_second_within_a_day_does(
    pause: float, remedy: Remedy, between: Callable[[Life], None]
) -> None:
    life = Life()
    life.serve(HOUR)
    assert life.die() is Remedy.RELAUNCH
    between(life)
    life.serve(pause)

    assert life.die() is remedy
    assert life.launched == [{}, {}]
    assert bool(life.instance.changes) is (remedy is Remedy.RELAUNCH_WITH)


@pytest.mark.parametrize(
    ("seconds", "remedy"), [(HOUR, Remedy.RELAUNCH), (60.0, Remedy.RELAUNCH_WITH)]
)
def test_the_time_that_an_engine_had_served_before_it_was_taken_over_counts(
    seconds: float, remedy: Remedy
) -> None:
    life = Life()
    life.serve(seconds)
    life.taken_over()
    life.now += 60

    assert life.die() is remedy


def test_within_the_soak_the_first_one_changes_the_settings() -> None:
    life = Life()
    life.serve(60)

    assert life.die() is Remedy.RELAUNCH_WITH


def test_settings_that_had_to_be_adapted_are_not_gone_back_to_although_they_were_proven() -> None:
    life = Life()
    life.serve(HOUR)
    life.die()
    life.serve(HOUR)
    life.die()
    adapted = dict(life.instance.changes)
    life.serve(60)
    life.die(Diagnosis(Failure.KILLED_BY_SIGNAL, phase=Phase.SERVING))

    assert life.instance.envelope.proven == {}
    assert life.instance.changes == adapted != {}


def test_an_incident_recovers_with_ready_and_ends_with_proof() -> None:
    life = Life()
    life.serve(60)
    life.die()
    life.serve(60)
    assert life.recovered == ["attempt 2 is ready with gpu_memory_utilization 0.93"]
    assert life.resolved == []
    assert life.instance.incident_open
    life.now += HOUR
    life.tell(ev.RequestsServed(life.now, life.instance.attempts_made, 100))

    assert life.resolved == ["attempt 2 has proven its settings: 100 requests"]
    assert not life.instance.incident_open


def test_the_incident_of_an_idle_instance_ends_with_the_time_of_the_soak() -> None:
    life = Life()
    life.serve(60)
    life.die()
    life.serve(HOUR / 4, requests=0)
    assert life.instance.incident_open
    life.now += HOUR / 2
    life.tell(ev.RequestsServed(life.now, life.instance.attempts_made, 0))

    assert life.resolved == ["attempt 2 has lasted the soak, though not proven"]
    assert life.instance.envelope.proven is None


def test_a_failure_within_the_soak_is_part_of_the_incident_before_and_after_it_is_none() -> None:
    life = Life()
    life.serve(60)
    life.die()
    life.serve(60)
    life.die()
    life.serve(HOUR)
    life.die()

    assert [one.continues for one in life.incidents] == [False, True, False]


def test_an_idle_engine_that_dies_long_after_is_an_incident_of_its_own() -> None:
    life = Life()
    life.serve(60)
    life.die()
    life.serve(21 * DAY, requests=0)
    life.die()

    assert [one.continues for one in life.incidents] == [False, False]


@pytest.mark.parametrize(("seconds", "requests"), [(60.0, 10_000), (HOUR, 99)])
def test_neither_time_nor_requests_alone_refill_a_budget(seconds: float, requests: int) -> None:
    life = Life()
    life.serve(60)
    life.die()
    before = life.instance.ledger
    life.serve(seconds, requests)

    assert life.instance.ledger == before != ()
    assert life.instance.envelope.proven is None


def test_a_budget_is_refilled_and_settings_are_proven_by_serving_long_enough() -> None:
    life = Life()
    life.serve(60)
    life.die()
    life.serve(HOUR)

    assert life.instance.ledger == ()
    assert life.instance.envelope.proven == life.instance.changes != {}


def test_what_became_ready_and_dies_each_time_is_held_by_the_budget_of_starts() -> None:
    life = Life()
    killed = Diagnosis(Failure.KILLED_BY_SIGNAL, phase=Phase.SERVING)
    remedies: list[Remedy] = []
    while life.instance.state is not State.HELD and len(remedies) < 9:
        life.serve(60)
        remedies.append(life.die(killed))

    assert remedies == [Remedy.RELAUNCH, Remedy.RELAUNCH, Remedy.HOLD]
