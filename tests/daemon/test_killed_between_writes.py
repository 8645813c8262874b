"""A daemon that is killed between two writes leaves no end of an attempt without its incident."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.daemon.test_launch import Scene
from tests.fakes.clock import FakeClock
from vllm_warden.adapters.store.history import History
from vllm_warden.core.decide.decision import Decision, Remedy
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.lifecycle.effects import (
    Effect,
    NoteForgotten,
    RecordIncident,
    Signal,
    StopSignal,
)
from vllm_warden.core.lifecycle.events import EvidenceGathered
from vllm_warden.core.model import Failure
from vllm_warden.daemon import record as record_module
from vllm_warden.daemon.act import perform
from vllm_warden.daemon.adopt import find_engines
from vllm_warden.daemon.record import Recorder
from vllm_warden.daemon.release import collect

MANY = 100


class Mortal:
    """The history of a daemon that is killed after so many writes."""

    def __init__(self, history: History, writes: int) -> None:
        self._history = history
        self._writes_left = writes

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._history, name)
        if not name.startswith(("save_", "append_")):
            return method

        async def write(*values: object) -> None:
            if self._writes_left > 0:
                self._writes_left -= 1
                await method(*values)

        return write


class State:
    def __init__(self) -> None:
        self.written: list[dict[str, object]] = []

    def write(self, document: dict[str, object]) -> None:
        self.written.append(document)


class Slow:
    """A history that answers when it may."""

    def __init__(self) -> None:
        self.may = asyncio.Event()

    def report_to(self, on_condition: object) -> None:
        """Has nothing to report."""

    async def append_event(self, document: object) -> None:
        """Nobody waits for it."""

    async def save_failure(self, *_: object) -> None:
        await self.may.wait()


async def left_behind(directory: Path, writes: int, *, open_before: bool) -> tuple[bool, bool]:
    """Whether an attempt that dies under a killed daemon has ended, and has an incident."""
    path = directory / "history.db"
    history = History(path)
    mortal: Any = Mortal(history, writes)
    scene = Scene(directory)
    scene.shell.recorder = Recorder(mortal, State(), FakeClock(), 0)
    scene.spawner.gate.set()
    await scene.launch()
    await collect(scene.shell, "tiny", 1)
    event = next(one for one in scene.posted if isinstance(one, EvidenceGathered))
    decision, seen = Decision(Remedy.RELAUNCH, "again"), event.evidence
    death = RecordIncident(1, event.diagnosis, decision, seen, {}, None, continues=open_before)
    if open_before:
        scene.shell.recorder.open_incident("tiny", replace(death, attempt=0, continues=False))
        scene.shell.recorder.recover_incident("tiny", "not written yet when attempt 1 dies")
    perform(scene.shell, "tiny", death)
    await scene.shell.recorder.settle()
    await scene.shell.cancel_tasks()
    scene.shell.lanes.close()
    await history.close()
    next_one = History(path)
    try:
        attempts, incidents = await next_one.attempts("tiny", 9), await next_one.incidents(None, 9)
    finally:
        await next_one.close()
    ended = [one for one in attempts if one["ended"] is not None]
    assert all((one["outcome"], one["exit_status"]) == ("died", -9) for one in ended)
    told = [one["attempt"] for one in incidents]
    for incident in incidents:
        told += [one["attempt"] for one in cast("list[dict[str, object]]", incident["further"])]
    return bool(ended), 1 in told


@pytest.mark.parametrize("open_before", [False, True])
@pytest.mark.parametrize("writes", [*range(8), MANY])
def test_an_attempt_has_ended_once_its_incident_is_kept_and_not_before(
    tmp_path: Path, writes: int, open_before: bool
) -> None:
    ended, told = asyncio.run(left_behind(tmp_path, writes, open_before=open_before))

    assert ended == told
    assert ended or writes < MANY


def died(attempt: int) -> RecordIncident:
    decision = Decision(Remedy.RELAUNCH, "again")
    seen = Evidence(())
    return RecordIncident(attempt, Diagnosis(Failure.UNKNOWN), decision, seen, {}, None)


def test_what_a_death_costs_is_kept_after_its_incident_and_so_never_counted_twice() -> None:
    """Killed between the two the next daemon diagnoses the death again, and counts it again."""

    async def scenario() -> tuple[int, int]:
        slow: Any = Slow()
        state = State()
        recorder = Recorder(slow, state, FakeClock(), 0)
        recorder.attempts["tiny"] = [{"number": 1}]
        recorder.save_state({"ledger": ["attempt 1"]})  # as a step does it, before its effects
        recorder.open_incident("tiny", died(1))
        await asyncio.sleep(0.1)
        before = len(state.written)
        slow.may.set()
        await recorder.state_written()
        return before, len(state.written)

    assert asyncio.run(scenario()) == (0, 1)


def test_a_history_that_hangs_keeps_nobodys_stop_from_being_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_module, "INCIDENT_FIRST_SECONDS", 0.05)

    async def scenario() -> list[dict[str, object]]:
        slow: Any = Slow()
        state = State()
        recorder = Recorder(slow, state, FakeClock(), 0)
        recorder.attempts["tiny"] = [{"number": 1}]
        recorder.open_incident("tiny", died(1))
        recorder.save_state({"wanted": False})
        async with asyncio.timeout(5):
            await recorder.state_written()
        slow.may.set()
        await recorder.settle()
        return state.written

    assert asyncio.run(scenario()) == [{"wanted": False}]


@pytest.mark.parametrize(
    ("effect", "known"),
    [(Signal(1, StopSignal.TERMINATE), "stop_asked"), (NoteForgotten(1), "forgotten")],
)
def test_the_next_daemon_knows_what_was_asked_of_an_attempt(
    tmp_path: Path, effect: Effect, known: str
) -> None:
    async def scenario() -> tuple[bool, bool]:
        scene = Scene(tmp_path)
        slow: Any = Mortal(History(tmp_path / "history.db"), MANY)
        recorder = scene.shell.recorder = Recorder(slow, State(), FakeClock(), 0)
        scene.shell.instances = cast("Any", {"tiny": None})
        scene.spawner.gate.set()
        await scene.launch()
        recorder.attempts["tiny"][0]["boot_id"] = FakeClock().boot_id()
        scene.groups.made.clear()
        before = getattr(find_engines(scene.shell)["tiny"], known)
        perform(scene.shell, "tiny", effect)
        after = getattr(find_engines(scene.shell)["tiny"], known)
        await recorder.settle()
        await scene.shell.cancel_tasks()
        scene.shell.lanes.close()
        return before, after

    assert asyncio.run(scenario()) == (False, True)
