"""Crash, boot and adoption go on with the last proven settings, never with known-bad ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.core.lifecycle.machine_room import PROFILE_SAMPLER_OOM, MachineRoom
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.envelope import Envelope, fingerprint
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.found import FoundEngine
from vllm_warden.core.lifecycle.states import Attempt, State
from vllm_warden.core.model import Mode, ProcessIdentity, SettingValue
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, InstanceSpec, RestartSpec
from vllm_warden.daemon import durable

SPEC = InstanceSpec(
    "tiny",
    "/m",
    (),
    engine={"max_num_seqs": 1024, "max_num_batched_tokens": 2048},
    restart=RestartSpec(startup_failures_max=99, unchanged_repeats_max=99, crashes_max=99),
)


def with_sequences(number: int | None) -> dict[str, SettingValue] | None:
    """As changes: none where they are the asked ones."""
    if number is None:
        return None
    return {} if number == 1024 else {"max_num_seqs": number}


def serving(
    runs: int,
    proven: int | None,
    bad: Sequence[int] = (),
    ready: int | None = None,
    spec: InstanceSpec = SPEC,
) -> MachineRoom:
    """An attempt with ``runs`` sequences that is starting."""
    room = MachineRoom(spec)
    room.start()
    changes = with_sequences(runs) or {}
    attempt = room.instance.attempt
    assert attempt is not None
    known = Envelope(
        room.instance.envelope.key,
        proven=with_sequences(proven),
        ready=with_sequences(ready if ready is not None else proven),
        known_bad=tuple(fingerprint(with_sequences(one) or {}) for one in bad),
    )
    room.instance = replace(
        room.instance,
        attempt=replace(attempt, changes=changes, settings={**SPEC.engine, **changes}),
        changes=changes,
        envelope=known,
    )
    return room


def next_sequences(room: MachineRoom) -> object:
    if room.is_in(State.BACKOFF):
        room.advance(400)
    room.open_gate()
    return room.launches[-1].settings["max_num_seqs"]


def crash(room: MachineRoom) -> object:
    room.die(-9)
    return next_sequences(room)


def boot(room: MachineRoom) -> object:
    after = MachineRoom(SPEC)
    kept = durable.to_document(room.instance, "old boot")
    after.instance = durable.from_document(SPEC, kept, "new boot")
    after.start()
    return after.launches[-1].settings["max_num_seqs"]


def adoption(room: MachineRoom) -> object:
    """A new daemon takes it over, and then it crashes."""
    attempt = room.instance.attempt
    assert attempt is not None
    after = MachineRoom(SPEC)
    kept = durable.to_document(room.instance, "boot")
    after.instance = durable.from_document(SPEC, kept, "boot")
    identity = ProcessIdentity(77, 1, "boot")
    found = FoundEngine(attempt.number, "abcd", attempt.settings, (), 0.0, identity, 900.0)
    after.tell(ev.EngineFound(after.now, found))
    after.open_gate()
    return crash(after)


@pytest.mark.parametrize("end", [crash, boot, adoption])
@pytest.mark.parametrize(
    ("proven", "bad", "runs", "expected"),
    [
        (512, (), 256, 512),
        (1024, (), 256, 1024),
        (256, (), 256, 256),
        (None, (), 256, 256),
        (None, (1024,), 256, 256),
        (512, (512,), 256, 256),
        (1024, (1024,), 256, 256),
        (512, (1024,), 256, 512),
    ],
)
def test_what_the_next_launch_runs_with(
    end: Callable[[MachineRoom], object],
    proven: int | None,
    bad: tuple[int, ...],
    runs: int,
    expected: int,
) -> None:
    room = serving(runs, proven, bad)
    room.ready()

    assert end(room) == expected


def test_the_way_back_is_told_and_counts_as_an_unchanged_relaunch() -> None:
    room = serving(256, proven=512)
    room.ready()
    room.die(-9)

    decision = room.incidents[-1].decision
    assert decision.remedy is Remedy.RELAUNCH_WITH
    assert [(one.before, one.after) for one in decision.changes] == [(256, 512)]
    assert "back to the proven settings" in decision.reason
    assert room.incidents[-1].settings_after == {**SPEC.engine, "max_num_seqs": 512}
    assert [entry.changed for entry in room.instance.ledger] == [False]
    assert room.instance.envelope.decided is None


def test_an_answer_that_was_never_tried_to_the_end_is_launched_again() -> None:
    room = serving(1024, proven=1024)
    room.die(1, *PROFILE_SAMPLER_OOM)
    assert next_sequences(room) == 256

    assert crash(room) == 256  # before ready: nothing speaks against the answer


def test_a_start_that_was_broken_off_is_repeated_as_it_was() -> None:
    assert crash(serving(256, proven=512)) == 256


def test_what_died_at_the_start_is_not_gone_back_to_although_it_was_proven() -> None:
    room = serving(1024, proven=1024)
    room.die(1, *PROFILE_SAMPLER_OOM)
    next_sequences(room)
    room.ready()

    assert crash(room) == 256
    assert boot(room) == 256


def test_bounds_that_were_tightened_hold_for_the_way_back_too() -> None:
    room = serving(256, proven=512)
    room.ready()
    adapt = AdaptSpec(knobs={"max_num_seqs": Bounds(max=300)})
    room.instance = replace(room.instance, spec=replace(SPEC, adapt=adapt))

    assert crash(room) == 1024


def test_a_mode_that_moves_nothing_goes_back_to_the_asked_settings() -> None:
    room = serving(1024, proven=512, spec=replace(SPEC, adapt=AdaptSpec(mode=Mode.RESTART)))
    room.ready()

    assert crash(room) == 1024


def test_beside_a_neighbour_a_crash_stays_with_what_was_fitted_there() -> None:
    room = serving(256, proven=512)
    room.ready()
    attempt = room.instance.attempt
    assert isinstance(attempt, Attempt)
    room.instance = replace(room.instance, attempt=replace(attempt, beside=True))

    assert crash(room) == 256
