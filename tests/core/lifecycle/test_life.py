"""Lives of an instance, told as a person would tell them."""

from __future__ import annotations

from dataclasses import replace
from signal import SIGINT, SIGTERM

import pytest

from tests.core.lifecycle.machine_room import PROFILE_SAMPLER_OOM, MachineRoom
from vllm_warden.core.diagnose.evidence import LostProcess
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.states import State
from vllm_warden.core.model import Failure, Mode, RemainingProcess
from vllm_warden.core.plan.gate import GateReport
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, InstanceSpec
from vllm_warden.daemon import durable

SPEC = InstanceSpec("tiny", "/m", (), engine={"max_num_seqs": 1024, "max_num_batched_tokens": 2048})


@pytest.fixture
def room() -> MachineRoom:
    return MachineRoom(SPEC)


def test_a_healthy_life_goes_through_waiting_and_starting_to_ready(room: MachineRoom) -> None:
    room.start()
    room.ready()

    assert room.states == [State.WAITING, State.STARTING, State.READY]


def test_a_sampler_oom_in_profiling_is_relaunched_once_with_fewer_sequences(
    room: MachineRoom,
) -> None:
    room.start()
    room.die(1, *PROFILE_SAMPLER_OOM)
    room.open_gate()
    room.ready()

    assert [launch.settings["max_num_seqs"] for launch in room.launches] == [1024, 256]
    assert room.is_in(State.READY)
    assert room.instance.degraded


def test_learned_settings_are_used_at_the_next_start(room: MachineRoom) -> None:
    room.start()
    room.die(1, *PROFILE_SAMPLER_OOM)
    room.open_gate()
    room.ready()
    room.tell(ev.StopRequested(room.now, "test"))
    room.end()
    room.start()

    assert room.launches[-1].settings["max_num_seqs"] == 256


def test_mode_restart_repeats_unchanged_and_ends_held() -> None:
    room = MachineRoom(replace(SPEC, adapt=AdaptSpec(mode=Mode.RESTART)))
    room.start()
    for _ in range(3):
        room.die(1, *PROFILE_SAMPLER_OOM)
        room.advance(400)
        if room.looks:
            room.open_gate()

    assert {launch.settings["max_num_seqs"] for launch in room.launches} == {1024}
    assert len(room.launches) == 3
    assert room.is_in(State.HELD)


def test_mode_observe_says_what_it_would_do_and_holds() -> None:
    room = MachineRoom(replace(SPEC, adapt=AdaptSpec(mode=Mode.OBSERVE)))
    room.start()
    room.die(1, *PROFILE_SAMPLER_OOM)

    assert room.is_in(State.HELD)
    assert "would relaunch with max_num_seqs 1024 -> 256" in room.instance.reason


def test_incomplete_evidence_moves_no_knob(room: MachineRoom) -> None:
    room.start()
    room.die(1, *PROFILE_SAMPLER_OOM, incomplete=True)
    room.advance(10)
    room.open_gate()

    assert room.launches[-1].settings["max_num_seqs"] == 1024
    assert "incomplete" in room.incidents[-1].decision.reason


def test_exit_status_zero_of_a_serving_engine_is_a_crash(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.die(0)

    assert room.is_in(State.WAITING)
    assert room.incidents[-1].diagnosis.failure is not Failure.NONE


def test_the_second_unchanged_relaunch_after_a_crash_waits_five_seconds(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.die(0)
    room.open_gate()
    room.ready()
    room.die(0)

    assert room.is_in(State.BACKOFF)
    room.advance(4.9)
    assert room.is_in(State.BACKOFF)
    room.advance(0.7)
    assert room.is_in(State.WAITING)


def test_a_lost_worker_is_diagnosed_without_waiting_for_the_parent(room: MachineRoom) -> None:
    room.start()
    room.ready()
    lost = LostProcess(77, "VLLM::Worker_TP1", 1)
    room.tell(ev.EngineLost(room.now, room.attempt, lost))
    room.advance(2.1)

    assert room.collecting == [1]
    assert room.instance.attempt is not None
    assert room.instance.attempt.lost == (lost,)


def test_stop_while_starting_interrupts_then_terminates_then_kills(room: MachineRoom) -> None:
    room.start()
    room.tell(ev.StopRequested(room.now, "test"))
    room.advance(2.1)
    room.advance(8.1)

    assert room.signals == [SIGINT, SIGTERM]
    assert room.releasing == [1]


def test_stop_while_serving_terminates_once_and_kills_at_the_deadline(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.tell(ev.StopRequested(room.now, "test"))
    room.advance(34)
    assert room.releasing == []
    room.advance(2)

    assert room.signals == [SIGTERM]
    assert room.releasing == [1]


def test_a_stop_says_how_many_requests_are_left_as_they_become_fewer(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.tell(ev.StopRequested(room.now, "test"))
    for left in (3, 4, 2, 0):
        room.tell(ev.RequestsLeft(room.now, 1, left))

    assert [text for text in room.texts if "requests left" in text] == [
        "requests left: 3",
        "requests left: 2",
    ]
    assert room.instance.requests_left == 0
    assert room.signals == [SIGTERM]
    assert room.following == [1]


@pytest.mark.parametrize("version", ["0.17.1", None])
def test_an_engine_that_would_drop_its_requests_is_terminated_after_the_last(
    room: MachineRoom, version: str | None
) -> None:
    room.start(version)
    room.ready()
    room.tell(ev.StopRequested(room.now, "test"))
    room.tell(ev.RequestsLeft(room.now, 1, 2))
    assert room.signals == []
    assert room.following == [1]

    room.tell(ev.RequestsLeft(room.now, 1, 0))
    assert room.signals == [SIGTERM]
    room.advance(10.1)
    assert room.releasing == [1]


def test_an_engine_that_would_drop_its_requests_is_terminated_at_the_deadline(
    room: MachineRoom,
) -> None:
    room.start("0.17.1")
    room.ready()
    room.tell(ev.StopRequested(room.now, "test"))
    room.tell(ev.RequestsLeft(room.now, 1, 2))
    room.advance(29)
    assert room.signals == []
    room.advance(1.1)
    assert room.signals == [SIGTERM]
    room.tell(ev.RequestsLeft(room.now, 1, 0))
    assert room.signals == [SIGTERM]


def test_a_stop_now_waits_for_no_request(room: MachineRoom) -> None:
    room.start("0.17.1")
    room.ready()
    room.tell(ev.StopRequested(room.now, "test", now=True))

    assert room.signals == [SIGTERM]
    assert room.following == []


def test_what_a_stop_could_not_free_is_part_of_the_reason(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.tell(ev.StopRequested(room.now, "test"))
    room.end("GPU 0: the driver keeps 9 GiB")

    assert room.instance.reason == "stopped by test; GPU 0: the driver keeps 9 GiB"


def test_what_a_stop_could_not_free_is_told_where_it_ends_in_a_hold_too(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.tell(ev.StopRequested(room.now, "test"))
    room.tell(ev.HoldRequested(room.now, "test"))
    room.end("GPU 0: the driver keeps 9 GiB")

    assert room.instance.reason == "hold asked by test; GPU 0: the driver keeps 9 GiB"


def test_a_stopped_instance_waits_for_no_gate(room: MachineRoom) -> None:
    room.tell(ev.StartRequested(room.now, "test"))
    room.close_gate()
    assert room.instance.gate_text is not None
    room.tell(ev.StopRequested(room.now, "test"))

    assert room.is_in(State.STOPPED)
    assert not room.instance.gate_text


def test_restart_comes_back_and_stop_does_not(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.tell(ev.RestartRequested(room.now, "test"))
    room.end()

    assert room.is_in(State.WAITING)


def test_a_stop_that_arrives_during_diagnosis_is_obeyed_and_the_incident_kept(
    room: MachineRoom,
) -> None:
    room.start()
    room.tell(ev.ProcessExited(room.now, 1, 1))
    room.tell(ev.StopRequested(room.now, "test"))
    room.gather(*PROFILE_SAMPLER_OOM)

    assert room.is_in(State.STOPPED)
    assert len(room.incidents) == 1


def test_hold_leaves_a_running_engine_alone_but_never_relaunches_it(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.tell(ev.HoldRequested(room.now, "test"))
    assert room.is_in(State.READY)
    room.die(0)

    assert room.is_in(State.HELD)
    assert len(room.launches) == 1


def test_resume_and_start_leave_a_hold(room: MachineRoom) -> None:
    room.tell(ev.HoldRequested(room.now, "test"))
    assert room.is_in(State.HELD)
    room.tell(ev.ResumeRequested(room.now, "test"))

    assert room.is_in(State.WAITING)


def test_a_hopeless_fault_fails_the_instance_without_a_launch(room: MachineRoom) -> None:
    room.tell(ev.StartRequested(room.now, "test"))
    room.close_gate("no such program", hopeless=True)

    assert room.is_in(State.FAILED)
    assert not room.launches


def test_a_fault_that_may_pass_is_waited_for_and_looked_at_again(room: MachineRoom) -> None:
    room.tell(ev.StartRequested(room.now, "test"))
    room.close_gate()
    assert room.instance.gate_text == "model: no such directory"
    room.advance(1)
    room.open_gate()

    assert room.is_in(State.STARTING)


def test_the_gate_announces_a_reason_once_not_at_every_look(room: MachineRoom) -> None:
    room.tell(ev.StartRequested(room.now, "test"))
    for _ in range(5):
        room.close_gate()
        room.advance(1)

    assert room.announced.count("gate-waiting") == 1


def test_the_restart_budget_ends_in_a_hold_that_names_it(room: MachineRoom) -> None:
    room.start()
    for _ in range(3):
        room.die(1)
        room.advance(400)
        if room.looks:
            room.open_gate()

    assert room.is_in(State.HELD)
    assert "restart budget is spent" in room.instance.reason
    assert len(room.launches) == 3


def test_a_soak_refills_the_budget_and_proves_the_settings(room: MachineRoom) -> None:
    room.start()
    room.die(1)
    room.advance(10)
    room.open_gate()
    room.ready()
    room.advance(1801)
    room.tell(ev.RequestsServed(room.now, room.attempt, 99))
    assert room.instance.ledger
    room.tell(ev.RequestsServed(room.now, room.attempt, 100))

    assert room.instance.ledger == ()
    assert room.instance.envelope.proven == {}


def test_reports_of_an_older_attempt_change_nothing(room: MachineRoom) -> None:
    room.start()
    room.die(1)
    room.advance(10)
    room.open_gate()
    before = room.instance
    room.tell(ev.ProcessExited(room.now, 1, 1))
    room.tell(ev.BecameReady(room.now, 1))

    assert room.instance is before


def test_the_daemons_own_stop_keeps_the_wanted_state(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.tell(ev.StopRequested(room.now, "daemon", keep_wanted=True))

    assert room.is_in(State.STOPPING)
    assert room.instance.wanted


def test_a_decision_survives_a_restart_a_hold_and_a_new_daemon(room: MachineRoom) -> None:
    room.start()
    room.die(1, *PROFILE_SAMPLER_OOM)
    room.tell(ev.RestartRequested(room.now, "test"))
    room.looks = room.looks[-1:]
    room.open_gate()
    assert room.launches[-1].settings["max_num_seqs"] == 256

    kept = durable.to_document(room.instance, "boot")
    after = MachineRoom(SPEC)
    after.instance = durable.from_document(SPEC, kept, "boot")
    after.start()
    assert after.launches[-1].settings["max_num_seqs"] == 256

    room.tell(ev.HoldRequested(room.now, "test"))
    room.die(1)
    room.tell(ev.ResumeRequested(room.now, "test"))
    room.open_gate()
    assert room.launches[-1].settings["max_num_seqs"] == 256


def test_settings_known_to_be_bad_are_not_launched_again(room: MachineRoom) -> None:
    room.start()
    room.die(1, *PROFILE_SAMPLER_OOM)
    room.tell(ev.StopRequested(room.now, "test"))
    room.looks.clear()
    room.start()

    assert room.launches[-1].settings["max_num_seqs"] == 256


@pytest.mark.parametrize(
    ("adapt", "why"),
    [
        (AdaptSpec(mode=Mode.OBSERVE), "observe"),
        (AdaptSpec(knobs={"max_num_seqs": Bounds(allowed=False)}), "may not be changed"),
        (AdaptSpec(knobs={"max_num_seqs": Bounds(min=512)}), "512 to 1024"),
    ],
)
def test_lessons_that_mode_or_bounds_forbid_by_now_are_left_out_and_it_is_said(
    room: MachineRoom, adapt: AdaptSpec, why: str
) -> None:
    room.start()
    room.die(1, *PROFILE_SAMPLER_OOM)
    room.open_gate()
    room.ready()
    kept = durable.to_document(room.instance, "boot")
    spec = replace(SPEC, adapt=adapt)
    after = MachineRoom(spec)
    after.instance = durable.from_document(spec, kept, "boot")
    after.start()

    assert after.launches[-1].settings["max_num_seqs"] == 1024
    assert "lesson-unused" in after.announced
    assert any(why in text for text in after.texts)


def test_a_hold_during_a_restart_is_kept(room: MachineRoom) -> None:
    room.start()
    room.ready()
    room.tell(ev.RestartRequested(room.now, "test"))
    room.tell(ev.HoldRequested(room.now, "test"))
    room.end()

    assert room.is_in(State.HELD)


def test_stop_now_kills_a_starting_engine_after_one_signal(room: MachineRoom) -> None:
    room.start()
    room.tell(ev.StopRequested(room.now, "test", now=True))
    room.advance(2.1)

    assert room.signals == [SIGINT]
    assert room.releasing == [1]


def test_a_start_that_listens_but_does_not_answer_says_what_the_probe_saw(
    room: MachineRoom,
) -> None:
    room.start()
    room.tell(ev.NotReadyYet(room.now, 1, "/health answers 500"))

    assert "/health answers 500" in room.instance.reason


def test_an_idle_engine_that_ran_for_the_soaks_time_crashes_on_the_crash_budget(
    room: MachineRoom,
) -> None:
    room.start()
    for _ in range(3):
        room.ready()
        room.advance(1801)
        room.die(0)
        room.advance(400)
        room.open_gate()

    assert room.is_in(State.STARTING)


REMAINS = GateReport(own_remains=(RemainingProcess(7, "VLLM::Worker"),))
TAKEN = GateReport(port_holder="pid 7 (nginx)")


@pytest.mark.parametrize(
    ("report", "waited", "pause"),
    [
        (REMAINS, 0, 0.15),
        (REMAINS, 9, 0.15),
        (REMAINS, 30, 0.5),
        (TAKEN, 0, 0.5),
        (TAKEN, 30, 0.5),
        (TAKEN, 100, 5),
    ],
)
def test_a_gate_that_may_open_soon_is_looked_at_often_and_others_are_not(
    room: MachineRoom, report: GateReport, waited: float, pause: float
) -> None:
    room.tell(ev.StartRequested(room.now, "test"))
    began = room.now
    room.tell(ev.GateReported(room.now, room.looks.pop(), report))
    while room.now < began + waited:
        room.advance(max(room.timers.values()) - room.now)
        room.tell(ev.GateReported(room.now, room.looks.pop(), report))

    assert max(room.timers.values()) - room.now == pytest.approx(pause)
