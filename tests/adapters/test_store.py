"""History survives; when it cannot, the daemon runs on and says what is wrong."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vllm_warden.adapters.store import history as history_module
from vllm_warden.adapters.store import schema
from vllm_warden.adapters.store import tables as tables_module
from vllm_warden.adapters.store.history import History, LastNumbers
from vllm_warden.adapters.store.lock import AlreadyRunning, StateDirectoryError, StateLock
from vllm_warden.adapters.store.state_file import StateFile
from vllm_warden.api.schema import IncidentDocument
from vllm_warden.api.shape import mismatches


def event(number, **more):
    return {"number": number, "instance": "one", **more}


async def fill(history):
    for number in range(1, 6):
        await history.append_event(event(number, text=f"event {number}"))
    await history.save_incident(1, {"instance": "one", "failure": "gpu_out_of_memory"})
    await history.save_incident(2, {"instance": "two", "failure": "unknown"})
    await history.save_incident(2, {"instance": "two", "failure": "port_in_use"})
    await history.save_attempt("one", 7, {"attempt": 7})
    await history.save_learned("one", {"max_num_seqs": 256})


def test_an_incident_is_not_kept_without_the_end_of_its_attempt(path, monkeypatch):
    def fails(*_):
        raise sqlite3.OperationalError("disk I/O error")

    async def scenario():
        history = History(path)
        await history.open()
        monkeypatch.setattr(tables_module.Tables, "_put_attempt", fails)
        await history.save_failure((1, {"instance": "one"}), "one", (7, {"outcome": "died"}))
        monkeypatch.undo()
        await history.close()
        again = History(path)
        kept = await again.incidents(None, 9), await again.attempts("one", 9)
        await again.save_failure((1, {"instance": "one"}), "one", (7, {"outcome": "died"}))
        both = await again.incidents(None, 9), await again.attempts("one", 9)
        await again.close()
        return kept, both

    kept, both = asyncio.run(scenario())
    assert kept == ([], [])
    assert both == ([{"instance": "one"}], [{"outcome": "died"}])


async def check(history):
    assert [row["number"] for row in await history.events_after(3, 10)] == [4, 5]
    assert [row["number"] for row in await history.events_after(0, 2)] == [1, 2]
    assert [row["failure"] for row in await history.incidents(None, 10)] == [
        "port_in_use",
        "gpu_out_of_memory",
    ]
    assert len(await history.incidents("one", 10)) == 1
    assert await history.incident(2) == {"instance": "two", "failure": "port_in_use"}
    assert await history.incident(99) is None
    assert await history.attempts("one", 5) == [{"attempt": 7}]
    assert await history.learned() == {"one": {"max_num_seqs": 256}}
    assert await history.last_numbers() == LastNumbers(5, 2, {"one": 7})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


def test_everything_written_is_there_after_a_restart(path):
    async def scenario():
        first = History(path)
        assert await first.open() is None
        await fill(first)
        await check(first)
        await first.close()
        second = History(path)
        assert await second.open() is None
        await check(second)
        await second.save_learned("one", None)
        assert await second.learned() == {}
        await second.close()

    asyncio.run(scenario())
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_empty_history_counts_from_zero(path):
    async def scenario():
        history = History(path)
        assert await history.last_numbers() == LastNumbers(0, 0, {})
        await history.close()

    asyncio.run(scenario())


def test_a_killed_daemon_loses_nothing_that_was_acknowledged(path):
    script = f"""
import asyncio, os, signal, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from vllm_warden.adapters.store.history import History
async def main():
    history = History(Path({str(path)!r}))
    await history.save_incident(1, {{"instance": "one"}})
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL

    async def scenario():
        history = History(path)
        assert await history.incident(1) == {"instance": "one"}
        assert history.condition is None
        await history.close()

    asyncio.run(scenario())


def test_old_events_and_incidents_go_when_the_cap_is_reached(path, monkeypatch):
    monkeypatch.setitem(tables_module.CAPS, "events", 100)

    async def scenario():
        history = History(path)
        for number in range(1, 301):
            await history.append_event(event(number))
        kept = [row["number"] for row in await history.events_after(0, 1000)]
        assert kept[-1] == 300
        assert 100 <= len(kept) <= 164
        await history.close()

    asyncio.run(scenario())


def test_a_file_that_is_no_database_is_set_aside_and_named(path):
    path.write_bytes(b"this is not sqlite" * 100)

    async def scenario():
        told: list[str | None] = []
        history = History(path, told.append)
        condition = await history.open()
        await fill(history)
        await check(history)
        await history.close()
        return condition, told

    condition, told = asyncio.run(scenario())
    [aside] = path.parent.glob("history.db.corrupt-*")
    assert aside.read_bytes().startswith(b"this is not sqlite")
    assert str(aside) in condition
    assert told == [condition]


def test_a_damaged_page_is_found_and_set_aside(path):
    async def write():
        history = History(path)
        for number in range(1, 400):
            await history.append_event(event(number, text="x" * 200))
        await history.close()

    asyncio.run(write())
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 9] = os.urandom(4096 * 6)
    path.write_bytes(content)

    async def scenario():
        history = History(path)
        assert "damaged" in (await history.open() or "")
        await history.append_event(event(400))
        assert [row["number"] for row in await history.events_after(0, 10)] == [400]
        await history.close()

    asyncio.run(scenario())
    assert list(path.parent.glob("history.db.corrupt-*"))


def test_a_newer_schema_is_read_but_not_written(path):
    async def scenario():
        first = History(path)
        await fill(first)
        await first.close()
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
        before = path.read_bytes()
        second = History(path)
        assert "schema 99" in (await second.open() or "")
        await check(second)
        await second.append_event(event(6))
        assert len(await second.events_after(5, 10)) == 1
        await second.close()
        assert path.read_bytes() == before

    asyncio.run(scenario())


def test_without_a_usable_directory_it_lives_in_memory_and_catches_up(tmp_path, monkeypatch):
    monkeypatch.setattr(history_module, "RETRY_SECONDS", 0.0)
    path = tmp_path / "later" / "history.db"

    async def scenario():
        told: list[str | None] = []
        history = History(path, told.append)
        assert "kept in memory" in (await history.open() or "")
        await fill(history)
        await check(history)
        path.parent.mkdir()
        await check(history)
        assert history.condition is None
        assert told[-1] is None
        await history.close()
        again = History(path)
        await check(again)
        await again.close()

    asyncio.run(scenario())


def test_a_file_that_fails_while_in_use_does_not_stop_anything(path):
    async def scenario():
        history = History(path)
        await fill(history)
        blocker = sqlite3.connect(path)
        blocker.execute("BEGIN IMMEDIATE")
        await history.append_event(event(6))
        assert "locked" in (history.condition or "")
        assert len(await history.events_after(5, 10)) == 1
        blocker.close()
        await history.close()

    asyncio.run(scenario())


def test_a_slow_disk_does_not_hold_up_the_loop(path, monkeypatch):
    monkeypatch.setattr(history_module, "DEADLINE_SECONDS", 0.05)

    async def scenario():
        history = History(path)
        blocked = asyncio.Event()
        loop = asyncio.get_running_loop()
        import threading

        gate = threading.Event()
        history._thread.submit(gate.wait, 20)
        loop.call_soon(blocked.set)
        await history.append_event(event(1))
        assert "did not answer" in (history.condition or "")
        gate.set()
        monkeypatch.setattr(history_module, "DEADLINE_SECONDS", 20)
        assert len(await history.events_after(0, 10)) == 1
        await history.close()

    asyncio.run(scenario())


def test_schema_number_is_written(path):
    opened = schema.open_history(path)
    assert opened.connection.execute("PRAGMA user_version").fetchone() == (schema.SCHEMA_VERSION,)
    opened.connection.close()


def test_a_history_of_schema_1_is_opened_and_its_incidents_read_right(path):
    old = sqlite3.connect(path)
    old.executescript((Path(__file__).parent / "history_schema_1.sql").read_text())
    old.close()

    async def scenario():
        for _ in range(2):  # the second time nothing is left to do
            history = History(path)
            assert await history.open() is None
            found: Any = [await history.incident(number) for number in (1, 2, 3, 4)]
            await history.close()
        assert [(one["failures"], one["further"]) for one in found] == [(1, [])] * 4
        first, second, third, other = found
        assert first["recovered"] == first["resolved"] > first["opened"]
        assert (second["recovered"], second["resolution"]) == (None, "followed by incident 3")
        assert (third["recovered"], third["resolved"], third["part_of"]) == (None, None, 1)
        assert (other["recovered"], other["resolution"]) == (None, "stopped by uid 0")
        for one in found:
            wrong = mismatches(one, IncidentDocument)
            assert not [each for each in wrong if "$.diagnosis." not in each]

    asyncio.run(scenario())
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()


def test_only_the_daemons_group_may_read_the_history(path):
    """SQLite gives its two files beside the database the mode that the database has."""
    before = os.umask(0)
    try:
        path.touch(0o644)

        async def scenario():
            history = History(path)
            await history.append_event({"number": 1, "instance": None})
            modes = {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()}
            await history.close()
            return modes

        modes = asyncio.run(scenario())
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("history.db", "history.db-wal", "history.db-shm"), 0o640)


def test_a_second_daemon_is_told_the_first_ones_pid(tmp_path):
    lock = StateLock(tmp_path / "state")
    with pytest.raises(AlreadyRunning) as caught:
        StateLock(tmp_path / "state")
    assert caught.value.pid == os.getpid()
    assert str(os.getpid()) in str(caught.value)
    lock.close()
    StateLock(tmp_path / "state").close()


def test_a_killed_daemon_leaves_no_lock(tmp_path):
    script = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from vllm_warden.adapters.store.lock import StateLock
lock = StateLock(Path({str(tmp_path)!r}))
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    StateLock(tmp_path).close()


def test_an_unwritable_state_directory_names_path_and_user(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateDirectoryError) as caught:
        StateLock(tmp_path / "file" / "state")
    assert str(tmp_path / "file" / "state") in str(caught.value)
    assert "as user" in str(caught.value)


def test_the_state_file_is_replaced_as_a_whole_and_private(tmp_path):
    state = StateFile(tmp_path / "state.json")
    assert state.read() == ({}, None)
    state.write({"wanted": {"one": "running"}})
    state.write({"wanted": {"one": "stopped"}})
    assert state.read() == ({"wanted": {"one": "stopped"}}, None)
    assert (tmp_path / "state.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_failed_write_keeps_the_old_state(tmp_path):
    state = StateFile(tmp_path / "state.json")
    state.write({"a": 1})
    with pytest.raises(TypeError):
        state.write({"a": object()})
    assert state.read() == ({"a": 1}, None)
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_replacement_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "state.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        StateFile(tmp_path / "state.json").write({"a": 1})
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\x00"])
def test_a_corrupt_state_file_is_set_aside(tmp_path, content):
    path = tmp_path / "state.json"
    path.write_bytes(content)
    document, problem = StateFile(path).read()
    assert document == {}
    assert "set aside" in (problem or "")
    assert Path(f"{path}.corrupt").read_bytes() == content


def incident(number, opened, **more):
    return {"number": number, "instance": "one", "opened": opened, "attempt": 1, **more}


def attempt(number, launch_id, **more):
    return {"number": number, "launch_id": launch_id, **more}


def spoken(number):
    return event(number, at=float(number), event="spoken", text=f"old {number}")


def test_a_locked_history_gets_back_what_was_numbered_anew_without_losing_a_row(path, monkeypatch):
    async def scenario():
        first = History(path)
        for number in range(1, 6):
            await first.append_event(spoken(number))
        await first.save_incident(1, incident(1, 10.0, failure="old"))
        await first.save_incident(2, incident(2, 20.0, failure="open"))
        await first.save_attempt("one", 1, attempt(1, "aa"))
        await first.close()
        blocker = sqlite3.connect(path)
        blocker.execute("BEGIN EXCLUSIVE")
        second = History(path)
        assert "locked" in (await second.open() or "")
        await second.append_event(event(4, at=90.0, event="spoken", text="new 4"))
        await second.append_event(event(5, at=91.0, event="spoken", text="new 5"))
        await second.append_event(event(6, at=92.0, event="spoken", text="new 6"))
        await second.save_incident(1, incident(1, 30.0, failure="new"))
        await second.save_incident(2, incident(2, 20.0, failure="open", resolution="closed"))
        await second.save_attempt("one", 1, attempt(1, "bb"))
        await second.save_attempt("two", 1, attempt(1, "cc"))
        blocker.close()
        monkeypatch.setattr(history_module, "RETRY_SECONDS", 0.0)
        assert await second.open() is None
        return second

    async def check_all():
        history = await scenario()
        # written again under the numbers that the daemon knows
        await history.save_incident(1, incident(1, 30.0, failure="new", resolution="restarted"))
        await history.save_attempt("one", 1, attempt(1, "bb", outcome="died"))
        await history.append_event(event(7, at=93.0, event="spoken", text="new 7"))
        texts = [row["text"] for row in await history.events_after(0, 100)]
        numbers = [row["number"] for row in await history.events_after(0, 100)]
        assert texts == [f"old {n}" for n in range(1, 6)] + [f"new {n}" for n in range(4, 8)]
        assert numbers == list(range(1, 10))
        found = [await history.incident(number) for number in (1, 2, 3)]
        assert found[0] == incident(1, 10.0, failure="old")
        assert found[1] == incident(2, 20.0, failure="open", resolution="closed")
        assert found[2] == incident(3, 30.0, failure="new", resolution="restarted")
        assert await history.attempts("one", 10) == [
            attempt(2, "bb", outcome="died"),
            attempt(1, "aa"),
        ]
        assert await history.attempts("two", 10) == [attempt(1, "cc")]
        assert await history.last_numbers() == LastNumbers(9, 3, {"one": 2, "two": 1})
        await history.close()

    asyncio.run(check_all())


def test_closing_tries_the_file_once_more_for_what_is_only_in_memory(path):
    async def scenario():
        history = History(path)
        await history.append_event(event(1))
        blocker = sqlite3.connect(path)
        blocker.execute("BEGIN IMMEDIATE")
        await history.append_event(event(2))
        assert "kept in memory" in (history.condition or "")
        blocker.close()
        await history.close()
        assert await history.events_after(0, 10) == []  # late questions are answered, not raised
        again = History(path)
        assert [row["number"] for row in await again.events_after(0, 10)] == [1, 2]
        await again.close()

    asyncio.run(scenario())


def test_a_slow_answer_is_a_condition_only_until_answers_come_in_time(path, monkeypatch):
    monkeypatch.setattr(history_module, "DEADLINE_SECONDS", 0.05)

    async def scenario():
        import threading

        told: list[str | None] = []
        history = History(path)
        history.report_to(told.append)
        gate = threading.Event()
        history._thread.submit(gate.wait, 20)
        await history.append_event(event(1))
        assert "did not answer" in (history.condition or "")
        gate.set()
        monkeypatch.setattr(history_module, "DEADLINE_SECONDS", 20)
        await history.append_event(event(2))
        assert history.condition is None
        assert told[-1] is None
        await history.close()

    asyncio.run(scenario())


def test_the_file_is_tried_again_also_when_nothing_is_written(path, monkeypatch):
    monkeypatch.setattr(history_module, "RETRY_SECONDS", 0.2)

    async def scenario():
        told: list[str | None] = []
        history = History(path, told.append)
        blocker = sqlite3.connect(path)
        blocker.execute("BEGIN EXCLUSIVE")
        await history.open()
        assert "kept in memory" in (told[-1] or "")
        blocker.close()
        async with asyncio.timeout(10):
            while told[-1] is not None:
                await asyncio.sleep(0.01)
        await history.close()

    asyncio.run(scenario())
