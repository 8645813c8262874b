"""Parts of the shell that can be shown without a process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_warden.api.schema import InstanceDocument
from vllm_warden.api.shape import mismatches
from vllm_warden.core.decide.envelope import Envelope, note_bad, note_proven
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.lifecycle import effects as fx
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import Failure, Phase
from vllm_warden.core.plan.spec import InstanceSpec, LaunchPlan
from vllm_warden.daemon import durable
from vllm_warden.daemon.act import ACTIONS, perform
from vllm_warden.daemon.documents import instance_document
from vllm_warden.daemon.kept_lines import FIRST_LINES_KEPT, LAST_LINES_KEPT
from vllm_warden.daemon.live_attempt import LiveAttempt
from vllm_warden.daemon.threads import Lane, LateError

SPEC = InstanceSpec("tiny", "/m", (0, 1), engine={"max_num_seqs": 1024})


def live_attempt() -> LiveAttempt:
    nothing: Any = None
    plan = LaunchPlan("tiny", 1, "ab", ("vllm",), {}, {})
    return LiveAttempt("tiny", 1, SPEC, plan, nothing, nothing, 0.0, 0.0, 0)


def test_every_effect_has_an_action() -> None:
    kinds = {
        name
        for name, kind in vars(fx).items()
        if isinstance(kind, type) and issubclass(kind, fx.Effect) and kind is not fx.Effect
    }

    assert {kind.__name__ for kind in ACTIONS} == kinds


def test_what_is_about_to_run_gets_its_signal_then() -> None:
    sent: list[int] = []
    live: Any = SimpleNamespace(number=3, child=SimpleNamespace(signal=sent.append))

    async def scenario() -> list[int]:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        recorder = SimpleNamespace(note_attempt=lambda *_: None)
        shell: Any = SimpleNamespace(live={}, launching={"x": begun}, recorder=recorder)
        perform(shell, "x", fx.Signal(3, fx.StopSignal.TERMINATE))
        assert sent == []
        shell.live["x"] = live
        begun.set_result(None)
        await asyncio.sleep(0)
        return sent

    assert asyncio.run(scenario()) == [fx.StopSignal.TERMINATE]


def test_an_instance_document_has_the_published_shape() -> None:
    for state in State:
        document = instance_document(Instance(SPEC, state=state), None, None, {"since": 1.0})
        assert list(mismatches(document, InstanceDocument)) == []


def test_a_change_shows_asked_and_in_force_with_the_reason() -> None:
    document = instance_document(
        Instance(SPEC, changes={"max_num_seqs": 256}), None, None, {"since": 1.0}
    )

    (setting,) = document["settings"]
    assert (setting["asked"], setting["in_force"]) == (1024, 256)
    assert setting["why"]
    assert document["degraded"]


def test_what_outlives_the_daemon_comes_back_as_it_was() -> None:
    envelope = note_bad(note_proven(Envelope("key"), {"max_num_seqs": 256}), {})
    entry = LedgerEntry(5.0, Failure.UNKNOWN, Phase.LOAD, was_ready=True, after_soak=False)
    instance = Instance(
        SPEC, wanted=True, wanted_by="me", attempts_made=7, envelope=envelope, ledger=(entry,)
    )

    again = durable.from_document(SPEC, durable.to_document(instance, "boot"), "boot")

    assert (again.wanted, again.wanted_by, again.attempts_made) == (True, "me", 7)
    assert again.envelopes == (envelope,)
    assert again.ledger == (entry,)


def test_failures_of_another_boot_age_from_this_boot_on() -> None:
    entry = LedgerEntry(5e6, Failure.UNKNOWN, None, was_ready=False, after_soak=False)
    document = durable.to_document(Instance(SPEC, ledger=(entry,)), "old boot")

    assert durable.from_document(SPEC, document, "new boot").ledger == (
        replace(entry, at_seconds=0.0),
    )


def test_an_operators_hold_outlives_the_daemon() -> None:
    document = durable.to_document(Instance(SPEC, wanted=True, held_by="me"), "boot")

    assert durable.from_document(SPEC, document, "boot").state is State.HELD


@pytest.mark.parametrize(
    "document",
    [
        {"ledger": [{"failure": "no such"}, 7], "envelopes": "x", "attempts_made": -3},
        {"held_by": 5, "wanted": "yes", "boot_id": 1, "ledger": None},
    ],
)
def test_a_mangled_state_document_is_read_as_far_as_it_goes(document: dict[str, object]) -> None:
    instance = durable.from_document(SPEC, document, "boot")

    assert instance.attempts_made == 0
    assert instance.ledger == ()


def test_first_and_last_lines_are_kept_and_the_middle_is_not() -> None:
    live = live_attempt()
    count = FIRST_LINES_KEPT + LAST_LINES_KEPT + 50
    live.take_records([LogRecord(number, "x") for number in range(1, count + 1)])

    numbers = [record.number for record in live.records()]
    assert numbers[: FIRST_LINES_KEPT + 1] == [
        *range(1, FIRST_LINES_KEPT + 1),
        FIRST_LINES_KEPT + 51,
    ]
    assert numbers[-1] == count
    assert live.lost_lines == 50
    assert not live.lost_errors


def test_memory_samples_are_kept_when_they_say_something_new() -> None:
    live = live_attempt()
    gib = 1 << 30

    assert live.take_sample(0.0, {0: gib})
    assert not live.take_sample(1.0, {0: gib + 1})
    assert live.take_sample(2.0, {0: 2 * gib})
    live.phase = Phase.PROFILE
    live.take_sample(3.0, {0: 2 * gib})
    live.take_sample(64.0, {0: 2 * gib})

    assert [sample.at_seconds for sample in live.samples] == [0.0, 2.0, 3.0, 64.0]


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_call_that_hangs_is_late_and_does_not_block_the_next_answer(
    stuck: threading.Event,
) -> None:
    async def scene() -> None:
        lane = Lane("NVML", 0.05)
        with pytest.raises(LateError, match="did not answer"):
            await lane.call(stuck.wait)
        with pytest.raises(LateError, match="still stuck"):
            await lane.call(lambda: None)
        stuck.set()
        while True:
            try:
                assert await lane.call(lambda: 7) == 7
            except LateError:
                await asyncio.sleep(0.01)
            else:
                break
        lane.close()

    asyncio.run(scene())
