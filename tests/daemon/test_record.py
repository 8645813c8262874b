"""What is kept survives a full disk, a locked database, and a disk that hangs."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import sqlite3
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.fakes.clock import FakeClock
from vllm_warden.adapters.store import history as history_module
from vllm_warden.adapters.store.history import History
from vllm_warden.core.decide.decision import Decision, Remedy
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.lifecycle.effects import Announce, RecordIncident
from vllm_warden.core.model import Failure
from vllm_warden.daemon import record as record_module
from vllm_warden.daemon.record import HistoryStore, Recorder


class FullDisk:
    """A state file on a disk that is full until it is not."""

    def __init__(self) -> None:
        self.full = True
        self.tries = 0
        self.written: list[dict[str, object]] = []

    def write(self, document: dict[str, object]) -> None:
        self.tries += 1
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written.append(document)


def recorder_of(history: History, state: Any = None) -> Recorder:
    return Recorder(cast("HistoryStore", history), state or FullDisk(), FakeClock(), 0)


def run(path: Path, scene: Callable[[History], Awaitable[None]]) -> None:
    async def main() -> None:
        history = History(path / "history.db")
        await history.open()
        try:
            await scene(history)
        finally:
            await history.close()

    asyncio.run(main())


async def until(reached: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not reached():
            await asyncio.sleep(0.005)


def test_a_state_that_could_not_be_written_is_written_when_the_disk_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_module, "STATE_RETRY_SECONDS", 0.02)

    async def scene(history: History) -> None:
        disk = FullDisk()
        recorder = recorder_of(history, disk)
        recorder.save_state({"wanted": "started"})
        await until(lambda: disk.tries == 1)
        recorder.save_state({"wanted": "stopped"})
        await until(lambda: disk.tries >= 3)
        assert "No space left" in recorder.conditions["state-file"]

        disk.full = False

        await until(lambda: bool(disk.written))
        assert disk.written == [{"wanted": "stopped"}]
        assert "state-file" not in recorder.conditions

    run(tmp_path, scene)


def test_the_daemons_end_tries_once_more_and_does_not_wait_for_the_next_retry(
    tmp_path: Path,
) -> None:
    async def scene(history: History) -> None:
        disk = FullDisk()
        recorder = recorder_of(history, disk)
        recorder.save_state({"wanted": "stopped"})
        await until(lambda: disk.tries == 1)
        began = time.monotonic()
        await recorder.settle()
        assert (disk.tries, disk.written) == (2, [])
        disk.full = False
        recorder.save_state({"wanted": "stopped again"})
        await recorder.settle()
        assert disk.written == [{"wanted": "stopped again"}]
        assert time.monotonic() - began < 2

    run(tmp_path, scene)


def test_a_document_that_cannot_be_written_at_all_does_not_stop_later_ones(
    tmp_path: Path,
) -> None:
    class Picky(FullDisk):
        def write(self, document: dict[str, object]) -> None:
            if "bad" in document:
                raise TypeError("not JSON")
            super().write(document)

    async def scene(history: History) -> None:
        disk = Picky()
        disk.full = False
        recorder = recorder_of(history, disk)
        recorder.save_state({"bad": 1})
        await recorder.settle()
        recorder.save_state({"good": 1})
        await recorder.settle()
        assert disk.written == [{"good": 1}]

    run(tmp_path, scene)


def test_trouble_with_the_history_shows_while_it_lasts_and_the_numbers_go_on_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "RETRY_SECONDS", 0.0)

    async def scene(history: History) -> None:
        recorder = recorder_of(history)
        recorder.announce("one", Announce("begun", "begun", {}))
        await recorder.settle()
        assert "history" not in recorder.conditions
        with contextlib.closing(sqlite3.connect(history.path)) as other:
            other.execute("INSERT INTO events VALUES (700, 'one', '{}')")
            other.commit()
            other.execute("BEGIN IMMEDIATE")
            recorder.announce("one", Announce("locked", "locked", {}))
            await recorder.settle()
            assert "locked" in recorder.conditions["history"]
        recorder.announce("one", Announce("free", "free", {}))
        await until(lambda: "history" not in recorder.conditions)
        await until(lambda: recorder.event_number >= 700)

    run(tmp_path, scene)


HUNG_DISK = """
import asyncio, sys, threading
sys.path[:0] = %r
from pathlib import Path
from vllm_warden.adapters.clock import SystemClock
from vllm_warden.adapters.store import history as module
from vllm_warden.adapters.store.history import History
from vllm_warden.daemon.record import Recorder
module.DEADLINE_SECONDS = 0.2
module.open_history = lambda path: threading.Event().wait()
class Hung:
    def write(self, document):
        threading.Event().wait()
async def main():
    history = History(Path("history.db"))
    recorder = Recorder(history, Hung(), SystemClock(), 0)
    recorder.save_state({})
    await history.open()
    print(recorder.conditions["history"], flush=True)
    await recorder.settle(0.2)
    await history.close()
asyncio.run(main())
"""


def test_a_disk_that_hangs_does_not_keep_the_daemon_from_ending() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HUNG_DISK % sys.path],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert "did not answer" in done.stdout
    assert done.returncode == 0, done.stderr


def died(attempt: int, *, continues: bool) -> RecordIncident:
    diagnosis = Diagnosis(Failure.UNKNOWN)
    decision = Decision(Remedy.RELAUNCH, "again")
    return RecordIncident(attempt, diagnosis, decision, Evidence(()), {}, None, continues=continues)


def test_failures_before_anything_has_lasted_are_one_incident(tmp_path: Path) -> None:
    async def scene(history: History) -> None:
        recorder = recorder_of(history)
        for attempt, continues in enumerate((False, True, True, False), 1):
            recorder.open_incident("x", died(attempt, continues=continues))
            recorder.recover_incident("x", "ready")
        await recorder.settle()
        first, second, none = [await history.incident(number) for number in (1, 2, 3)]
        assert first is not None
        assert second is not None
        assert none is None
        assert (first["attempt"], first["failures"]) == (1, 3)
        further = cast("list[dict[str, object]]", first["further"])
        assert [one["attempt"] for one in further] == [2, 3]
        assert first["resolution"] == "followed by incident 2"
        assert (second["attempt"], second["further"], second["resolved"]) == (4, [], None)
        assert second["recovered"] is not None
        last = recorder.last_incident("x")
        assert last is not None
        assert last["number"] == 2

    run(tmp_path, scene)


def test_one_more_failure_undoes_a_recovery_and_is_the_one_that_status_shows(
    tmp_path: Path,
) -> None:
    async def scene(history: History) -> None:
        recorder = recorder_of(history)
        document = recorder.open_incident("x", died(1, continues=False))
        recorder.recover_incident("x", "ready")
        recovered = document["recovered"]
        recorder.recover_incident("x", "ready again without a failure in between")
        assert document["recovered"] == recovered is not None
        further = Diagnosis(Failure.PORT_IN_USE)
        recorder.open_incident("x", dataclasses.replace(died(2, continues=True), diagnosis=further))
        assert document["recovered"] is None
        assert document["resolved"] is None
        last = recorder.last_incident("x")
        assert last is not None
        assert (last["number"], last["failure"]) == (1, "port_in_use")
        await recorder.settle()

    run(tmp_path, scene)


def test_an_incident_keeps_its_first_failure_and_the_newest_ones(tmp_path: Path) -> None:
    async def scene(history: History) -> None:
        recorder = recorder_of(history)
        for attempt in range(1, 31):
            recorder.open_incident("x", died(attempt, continues=attempt > 1))
        await recorder.settle()
        kept = await history.incident(1)
        assert kept is not None
        further = cast("list[dict[str, object]]", kept["further"])
        assert (kept["attempt"], kept["failures"]) == (1, 30)
        assert [one["attempt"] for one in further] == list(range(11, 31))

    run(tmp_path, scene)
