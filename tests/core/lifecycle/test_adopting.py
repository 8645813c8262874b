"""A new daemon and what an earlier one launched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.lifecycle.machine_room import MachineRoom
from vllm_warden.core.decide.slack import Slack
from vllm_warden.core.lifecycle import effects as fx
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle import serving
from vllm_warden.core.lifecycle.found import FoundEngine, LaunchedAs
from vllm_warden.core.lifecycle.machine import step
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import ProcessIdentity
from vllm_warden.core.plan.gate import GateReport
from vllm_warden.core.plan.spec import InstanceSpec

FOUND = FoundEngine(
    attempt=7,
    launch_id="0badcafe",
    settings={"max_num_seqs": 256},
    gpu_indices=(),
    launched_seconds=10.0,
    identity=ProcessIdentity(77, 1, "boot"),
)


@pytest.fixture
def room() -> MachineRoom:
    made = MachineRoom(InstanceSpec("tiny", "/m", (), engine={"max_num_seqs": 1024}))
    made.instance = replace(made.instance, wanted=True, wanted_by="autostart", attempts_made=3)
    return made


def test_it_is_taken_over_as_the_attempt_it_is_whatever_the_gate_says(room: MachineRoom) -> None:
    room.tell(ev.EngineFound(room.now, FOUND))
    room.close_gate("port 8000 is taken", hopeless=True)

    attempt = room.instance.attempt
    assert attempt is not None
    assert (room.instance.state, attempt.number) == (State.STARTING, 7)
    assert dict(attempt.changes) == {"max_num_seqs": 256}
    assert room.instance.attempts_made == 7
    assert room.launches == []
    assert "engine-adopted" in room.announced
    room.ready()
    assert room.is_in(State.READY)
    assert room.instance.found is None


def test_what_is_left_for_a_full_batch_is_looked_at_again(room: MachineRoom) -> None:
    """Otherwise the load probe would be withheld for ever from an engine that was taken over."""
    room.tell(ev.EngineFound(room.now, replace(FOUND, ready_since_seconds=20.0)))
    room.open_gate()
    looked: list[Instance] = []
    slack = Slack(1.0, 1.0, text="", arithmetic=())

    def look(instance: Instance, _: ev.Event) -> Slack:
        looked.append(instance)
        return slack

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(serving, "_slack", look)
        room.ready()
    assert len(looked) == 1
    assert room.instance.attempt is not None
    assert room.instance.attempt.slack is slack
    assert room.instance.attempt.ready_since_seconds == 20.0


def test_a_start_that_is_asked_meanwhile_changes_nothing(room: MachineRoom) -> None:
    room.tell(ev.EngineFound(room.now, FOUND))
    room.tell(ev.StartRequested(room.now, "person"))
    room.tell(ev.ResumeRequested(room.now, "person"))
    room.open_gate()
    assert room.is_in(State.STARTING)
    assert room.launches == []


@pytest.mark.parametrize(
    ("ready", "first"), [(20.0, fx.StopSignal.TERMINATE), (None, fx.StopSignal.INTERRUPT)]
)
def test_a_stop_that_is_asked_meanwhile_stops_it(
    room: MachineRoom, ready: float | None, first: fx.StopSignal
) -> None:
    room.tell(ev.EngineFound(room.now, replace(FOUND, ready_since_seconds=ready)))
    room.tell(ev.StopRequested(room.now, "person"))
    room.open_gate()
    assert room.is_in(State.STOPPING)
    assert room.signals == [first]


@pytest.mark.parametrize(
    ("then", "forgotten"),
    [
        ({}, False),
        ({"model": "/other"}, True),
        ({"engine": {"max_num_seqs": 7}}, True),
    ],
)
def test_what_another_settings_file_asked_for_teaches_nothing(
    room: MachineRoom, then: dict[str, Any], forgotten: bool
) -> None:
    spec = room.instance.spec
    now = LaunchedAs(spec.model, spec.host, spec.port, spec.engine)
    launched = replace(now, **then)
    settings = {**spec.engine, **launched.engine}
    room.tell(ev.EngineFound(room.now, replace(FOUND, launched_as=launched, settings=settings)))
    room.open_gate()
    assert room.instance.attempt is not None
    assert room.instance.attempt.forgotten is forgotten


def test_settings_that_were_accepted_meanwhile_are_no_other_ones(room: MachineRoom) -> None:
    spec = room.instance.spec
    launched = LaunchedAs(spec.model, spec.host, spec.port, {"max_num_seqs": 9999})
    taken = replace(FOUND, launched_as=launched, settings=dict(room.instance.asked))
    room.tell(ev.EngineFound(room.now, taken))
    room.open_gate()
    assert room.instance.attempt is not None
    assert not room.instance.attempt.forgotten


def test_what_nobody_wants_is_stopped(room: MachineRoom) -> None:
    room.instance = replace(room.instance, wanted=False)
    room.tell(ev.EngineFound(room.now, FOUND))
    room.open_gate()
    assert room.is_in(State.STOPPING)


def test_a_hold_is_kept(room: MachineRoom) -> None:
    room.instance = replace(room.instance, state=State.HELD, held_by="person")
    room.tell(ev.EngineFound(room.now, FOUND))
    room.open_gate()
    assert (room.instance.state, room.instance.held_by) == (State.STARTING, "person")


def test_a_hold_that_is_asked_meanwhile_leaves_it_running(room: MachineRoom) -> None:
    room.tell(ev.EngineFound(room.now, FOUND))
    room.tell(ev.HoldRequested(room.now, "person"))
    room.open_gate()
    assert (room.instance.state, room.instance.held_by) == (State.STARTING, "person")


def test_one_that_has_ended_meanwhile_was_ready_when_it_was(room: MachineRoom) -> None:
    ended = replace(FOUND, identity=None, ready_since_seconds=20.0, free_at_launch_bytes=7)
    room.tell(ev.EngineFound(room.now, ended))
    looking = room.instance
    number = room.looks[-1]
    room.open_gate()
    _, effects = step(looking, ev.GateReported(room.now, number, GateReport()))
    assert fx.TakeOver(ended) in effects
    assert room.instance.attempt is not None
    assert room.instance.attempt.ready_since_seconds == 20.0
    assert room.instance.attempt.free_at_launch_bytes == 7


@pytest.mark.parametrize("held_by", [None, "person"])
def test_a_restart_that_was_under_way_is_finished_and_is_no_death(
    room: MachineRoom, held_by: str | None
) -> None:
    state = State.STOPPED if held_by is None else State.HELD
    room.instance = replace(room.instance, state=state, held_by=held_by)
    room.tell(ev.EngineFound(room.now, replace(FOUND, identity=None, stop_asked=True)))
    room.open_gate()
    assert room.is_in(State.STOPPING)
    room.tell(ev.ProcessExited(room.now, 7, None))
    assert room.releasing == [7]
    room.tell(ev.AttemptReleased(room.now, 7))
    assert room.is_in(State.WAITING if held_by is None else State.HELD)
    assert room.instance.wanted
    assert room.incidents == []
