"""Settings tried for once: the way back, what is learned of it, and what is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.lifecycle.machine_room import PROFILE_SAMPLER_OOM, MachineRoom
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.envelope import Envelope
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.effects import NoteForgotten
from vllm_warden.core.lifecycle.machine import step
from vllm_warden.core.lifecycle.states import State
from vllm_warden.core.lifecycle.trial import Trial, TrialKind
from vllm_warden.core.model import Mode
from vllm_warden.core.plan.gate import GateReport
from vllm_warden.core.plan.spec import AdaptSpec, EngineFacts, InstanceSpec
from vllm_warden.daemon import durable

SPEC = InstanceSpec("tiny", "/m", (), engine={"max_num_seqs": 1024, "max_num_batched_tokens": 2048})
AGAIN = Trial(TrialKind.CAPACITY, "uid 0")
GIVEN = Trial(TrialKind.GIVEN, "uid 0", {"max_num_seqs": 400})


def degraded(spec: InstanceSpec = SPEC) -> MachineRoom:
    """Ready with the 256 sequences that the first failure taught."""
    room = MachineRoom(spec)
    room.start()
    room.die(1, *PROFILE_SAMPLER_OOM)
    room.open_gate()
    room.ready()
    return room


def prove(room: MachineRoom) -> None:
    room.advance(1801)
    room.tell(ev.RequestsServed(room.now, room.attempt, 100))


def restart(room: MachineRoom, trial: Trial | None = None) -> None:
    room.tell(ev.RestartRequested(room.now, "uid 0", trial=trial))
    room.end()
    room.open_gate()


def sequences(room: MachineRoom) -> list[object]:
    return [launch.settings["max_num_seqs"] for launch in room.launches]


def test_a_retry_of_capacity_that_fails_is_back_at_once_and_uses_no_budget() -> None:
    room = degraded()
    prove(room)
    restart(room, AGAIN)
    room.die(1, *PROFILE_SAMPLER_OOM)
    assert room.is_in(State.WAITING)
    room.open_gate()

    assert sequences(room) == [1024, 256, 1024, 256]
    assert room.instance.ledger == ()
    assert "trial-failed" in room.announced
    assert room.incidents[-1].decision.remedy is Remedy.RELAUNCH_WITH
    assert [(c.before, c.after) for c in room.incidents[-1].decision.changes] == [(1024, 256)]
    assert room.incidents[-1].decision.delay_seconds == 0


@pytest.mark.parametrize("ready", [False, True])
def test_ready_settings_are_the_way_back_where_none_are_proven(ready: bool) -> None:
    room = degraded()
    restart(room, AGAIN)
    if ready:
        room.ready()
    room.die(-9)
    room.open_gate()

    assert sequences(room)[-2:] == [1024, 256]
    assert len(room.instance.ledger) == 1  # the failure that taught the 256, not the trial's


def test_capacity_that_proves_itself_stays_and_is_no_longer_known_to_be_bad() -> None:
    room = degraded()
    prove(room)
    restart(room, AGAIN)
    room.ready()
    prove(room)
    restart(room)

    assert sequences(room)[-2:] == [1024, 1024]
    assert not room.instance.degraded


def test_after_the_soak_a_retried_capacity_crashes_like_any_other() -> None:
    room = degraded()
    restart(room, AGAIN)
    room.ready()
    prove(room)
    room.die(-9)
    room.open_gate()

    assert sequences(room)[-1] == 1024
    assert len(room.instance.ledger) == 1


def test_a_retry_is_launched_once_although_the_gate_and_the_launch_take_several_tries() -> None:
    room = degraded()
    room.tell(ev.RestartRequested(room.now, "uid 0", trial=AGAIN))
    room.end()
    room.close_gate()
    room.advance(1)
    room.open_gate()
    room.alive.clear()
    room.tell(ev.LaunchFailed(room.now, room.attempt, "no descriptors", hopeless=False))
    room.advance(31)
    room.open_gate()

    assert sequences(room)[-2:] == [1024, 1024]
    restart(room)
    assert sequences(room)[-1] == 256


def test_a_daemon_that_restarts_during_a_retry_goes_back() -> None:
    room = degraded()
    restart(room, AGAIN)
    room.ready()
    after = MachineRoom(SPEC)
    after.instance = durable.from_document(SPEC, durable.to_document(room.instance, "b"), "b")
    after.start()

    assert sequences(after) == [256]


def test_given_settings_are_for_one_launch_and_teach_nothing() -> None:
    room = degraded()
    prove(room)
    restart(room, GIVEN)
    room.ready()
    prove(room)
    room.die(-9)
    room.open_gate()

    assert sequences(room)[-2:] == [400, 256]
    assert room.instance.envelope.proven == {"max_num_seqs": 256}


def test_a_way_back_names_what_goes_and_says_nothing_twice() -> None:
    room = MachineRoom(SPEC)
    room.start()
    room.ready()
    restart(room, Trial(TrialKind.GIVEN, "uid 0", {"block_size": 32}))
    told = len(room.texts)
    room.die(-9)
    of_the_failure = room.texts[told:]

    (change,) = room.incidents[-1].decision.changes
    assert (change.setting, change.before, change.after) == ("block_size", 32, None)
    assert any(text.startswith("relaunch with block_size 32 -> default: ") for text in room.texts)
    assert len(of_the_failure) == len(set(of_the_failure))
    assert not any("with :" in text for text in of_the_failure)
    room.open_gate()
    assert "block_size" not in room.launches[-1].settings


def test_of_one_failure_no_line_is_said_twice() -> None:
    room = MachineRoom(SPEC)
    room.start()
    told = len(room.texts)
    room.die(1, *PROFILE_SAMPLER_OOM)
    of_the_failure = room.texts[told:]

    assert "settings-changed" in room.announced
    assert len(of_the_failure) == len(set(of_the_failure))


def test_a_way_back_to_the_same_settings_is_an_unchanged_relaunch() -> None:
    room = MachineRoom(SPEC)
    room.start()
    room.ready()
    restart(room, Trial(TrialKind.GIVEN, "uid 0", {"max_num_seqs": 1024}))
    told = len(room.texts)
    room.die(-9)

    assert room.incidents[-1].decision.remedy is Remedy.RELAUNCH
    assert any(text.startswith("relaunch unchanged: ") for text in room.texts[told:])


def test_a_stop_ends_a_retry_that_was_asked_for() -> None:
    room = degraded()
    room.tell(ev.RestartRequested(room.now, "uid 0", trial=AGAIN))
    room.tell(ev.StopRequested(room.now, "uid 0"))
    room.end()
    room.start()

    assert sequences(room)[-1] == 256


def test_where_only_observing_is_allowed_a_failed_trial_is_held() -> None:
    room = MachineRoom(replace(SPEC, adapt=AdaptSpec(mode=Mode.OBSERVE)))
    room.tell(ev.StartRequested(room.now, "uid 0", trial=GIVEN))
    room.open_gate()
    room.die(-9)

    assert sequences(room) == [400]
    assert room.is_in(State.HELD)


def test_a_trial_with_nothing_to_go_back_to_is_judged_like_any_start() -> None:
    room = MachineRoom(SPEC)
    room.tell(ev.StartRequested(room.now, "uid 0", trial=AGAIN))
    room.open_gate()
    room.die(1, *PROFILE_SAMPLER_OOM)
    room.open_gate()

    assert sequences(room) == [1024, 256]
    assert len(room.instance.ledger) == 1


def test_forgotten_settings_are_not_launched_again_and_not_learned_from_what_runs() -> None:
    room = degraded()
    room.tell(ev.ForgetRequested(room.now, "uid 0"))
    assert room.instance.degraded  # it runs on as it is
    room.tell(ev.BecameUnready(room.now, room.attempt, "503"))
    room.ready()
    prove(room)
    restart(room)

    assert sequences(room)[-1] == 1024
    assert "settings-forgotten" in room.announced


def test_what_was_forgotten_does_not_come_back_by_a_crash() -> None:
    room = degraded()
    room.tell(ev.ForgetRequested(room.now, "uid 0"))
    room.die(-9)
    room.open_gate()

    assert sequences(room)[-1] == 1024


def test_that_a_running_attempt_teaches_nothing_is_kept_for_the_next_daemon() -> None:
    room = degraded()
    request = ev.ForgetRequested(room.now, "uid 0")
    _, effects = step(room.instance, request)

    assert NoteForgotten(room.attempt) in effects
    room.tell(ev.StopRequested(room.now, "uid 0"))
    room.end()
    _, effects = step(room.instance, request)
    assert not any(isinstance(one, NoteForgotten) for one in effects)


def test_forgetting_refills_no_budget() -> None:
    room = degraded()
    room.tell(ev.ForgetRequested(room.now, "uid 0"))

    assert len(room.instance.ledger) == 1


def test_accepted_settings_are_the_asked_ones_and_stay_proven() -> None:
    room = degraded()
    prove(room)
    room.tell(ev.AcceptRequested(room.now, "uid 0", {**SPEC.engine, "max_num_seqs": 256}))
    assert not room.instance.degraded
    room.die(-9)
    room.open_gate()

    assert sequences(room)[-1] == 256
    assert room.instance.asked["max_num_seqs"] == 256
    assert room.instance.envelope.proven == {}


def test_what_was_learned_with_other_versions_or_gpus_is_forgotten_too() -> None:
    room = degraded()
    room.instance = replace(room.instance, envelopes=(Envelope("other", proven={"a": 1}),))
    room.tell(ev.ForgetRequested(room.now, "uid 0"))

    assert room.instance.envelopes == ()


@pytest.mark.parametrize("dying", [False, True])
def test_a_stop_leaves_no_trial_pending(dying: bool) -> None:
    room = degraded()
    if dying:
        room.tell(ev.ProcessExited(room.now, room.attempt, 1))
    room.tell(ev.RestartRequested(room.now, "uid 0", trial=AGAIN))
    assert room.instance.trial == AGAIN
    room.tell(ev.StopRequested(room.now, "uid 0"))

    assert room.instance.trial is None


def test_a_retry_that_was_asked_for_while_it_died_is_the_next_launch() -> None:
    room = degraded()
    room.tell(ev.ProcessExited(room.now, room.attempt, 1))
    room.tell(ev.RestartRequested(room.now, "uid 0", trial=AGAIN))
    room.gather(was_ready=True)
    if not room.looks:
        room.advance(10)
    room.open_gate()

    assert sequences(room)[-1] == 1024


def test_another_engine_version_begins_with_what_this_one_has_proven() -> None:
    room = degraded()
    prove(room)
    room.tell(ev.RestartRequested(room.now, "uid 0"))
    room.end()
    newer = GateReport(engine=EngineFacts("0.33.0", is_cpu=True))
    room.tell(ev.GateReported(room.now, room.looks.pop(), newer))

    assert sequences(room)[-1] == 256
    after = MachineRoom(SPEC)
    after.instance = durable.from_document(SPEC, durable.to_document(room.instance, "b"), "b")
    after.tell(ev.StartRequested(after.now, "test"))
    after.tell(ev.GateReported(after.now, after.looks.pop(), newer))
    assert sequences(after) == [256]
    assert after.instance.envelope.version == "0.32.0"
