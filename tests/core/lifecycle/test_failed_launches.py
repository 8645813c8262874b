"""A launch that fails before there is an engine uses the restart budget, and ends in a hold."""

from __future__ import annotations

from dataclasses import replace

from tests.core.lifecycle.machine_room import PROFILE_SAMPLER_OOM, MachineRoom
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.states import State
from vllm_warden.core.plan.spec import InstanceSpec, RestartSpec

SPEC = InstanceSpec("tiny", "/m", (), engine={"max_num_seqs": 1024})


def fail(room: MachineRoom, reason: str = "no cgroup: Read-only file system") -> None:
    room.alive.clear()
    room.tell(ev.LaunchFailed(room.now, room.attempt, reason, hopeless=False))


def delays_until_held(room: MachineRoom) -> list[int]:
    delays: list[int] = []
    while len(delays) < 100:
        fail(room)
        if not room.is_in(State.BACKOFF):
            return delays
        (due,) = room.timers.values()
        delays.append(round(due - room.now))
        room.advance(due - room.now + 0.01)
        room.open_gate()
    raise AssertionError("it is tried for ever")


def test_launches_that_fail_every_time_are_held_with_the_reason() -> None:
    room = MachineRoom(SPEC)
    room.start()

    assert delays_until_held(room) == [5, 10, 20, 40, 80]
    assert room.is_in(State.HELD)
    assert "5 failed attempts within 6 h" in room.instance.reason
    assert "cannot launch the engine: no cgroup: Read-only file system" in room.instance.reason
    assert room.announced.count("launch-failed") == 6
    assert room.announced[-1] == "instance-held"


def test_the_pause_grows_no_longer_than_configured() -> None:
    restart = RestartSpec(startup_failures_max=8, backoff_max_seconds=60.0)
    room = MachineRoom(replace(SPEC, restart=restart))
    room.start()

    assert delays_until_held(room) == [5, 10, 20, 40, 60, 60, 60, 60]


def test_deaths_and_failed_launches_use_one_budget() -> None:
    room = MachineRoom(SPEC)
    room.start()
    for _ in range(2):
        fail(room)
        room.advance(3600)
        room.open_gate()
    room.die(1, *PROFILE_SAMPLER_OOM)  # a failed launch is no repeat of what this engine did
    assert room.is_in(State.WAITING)
    room.open_gate()
    assert len(room.instance.ledger) == 3
    assert len(delays_until_held(room)) == 2


def test_a_start_by_a_person_is_tried_again_and_old_failures_are_forgotten() -> None:
    room = MachineRoom(SPEC)
    room.start()
    delays_until_held(room)
    room.start()
    assert room.is_in(State.STARTING)
    fail(room)
    assert room.is_in(State.HELD)
    room.advance(7 * 3600)
    room.start()
    assert len(delays_until_held(room)) == 5


def test_what_is_held_by_a_person_is_not_launched_again() -> None:
    room = MachineRoom(SPEC)
    room.start()
    room.tell(ev.HoldRequested(room.now, "uid 0"))
    fail(room)

    assert room.is_in(State.HELD)
    assert "no cgroup" in room.instance.reason


def test_what_cannot_help_is_not_tried_again() -> None:
    room = MachineRoom(SPEC)
    room.start()
    room.alive.clear()
    room.tell(ev.LaunchFailed(room.now, room.attempt, "no such program", hopeless=True))

    assert room.is_in(State.FAILED)
