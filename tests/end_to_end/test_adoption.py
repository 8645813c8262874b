"""Engines outlive the daemon: the next one takes them over, or says how they ended meanwhile."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import cgroup_of
from tests.wardens import Warden, complete, free_port, living
from vllm_warden.adapters.cgroup.mount import find_cgroup2

pytestmark = pytest.mark.slow


def kill(warden: Warden) -> None:
    assert warden.process is not None
    warden.process.kill()
    warden.process.wait()


def pids_of(warden: Warden) -> list[int]:
    pids = warden.status("x")["pids"]
    return [pids["parent"], *(int(pid) for pid in pids["engine"])]


def serving(warden: Warden, table: str) -> list[int]:
    """Start a daemon whose one instance is ready; its processes, the parent first."""
    warden.write_config(table)
    warden.start()
    warden.until_state("x", "ready", seconds=20)
    return pids_of(warden)


def test_a_serving_engine_is_taken_over_by_the_next_daemon(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    port = free_port()
    before = serving(warden, instance("x", model, port=port))
    kill(warden)
    assert complete(port, str(model))["choices"]

    warden.start()

    status = warden.until_state("x", "ready", seconds=20)
    assert pids_of(warden) == before
    assert status["attempt"] == 1
    assert warden.incidents("x") == []
    kinds = [one["event"] for one in warden.events("x")]
    assert kinds.count("attempt-launched") == 1
    assert "engine-adopted" in kinds
    # its whole log is there again, also the part that the first daemon read
    assert "Application startup complete" in warden.command("logs", "x").stdout
    assert warden.stop() == 0
    assert living(before) == []


def sleeper_in(directory: Path) -> subprocess.Popen[bytes]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "cgroup.procs").open("w") as members:
        return subprocess.Popen(["sh", "-c", "echo $$ >&0; exec sleep 600"], stdin=members)


def test_what_else_lies_in_the_tree_is_ended_where_it_is_ours_and_named_where_it_is_not(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    before = serving(warden, instance("x", model))
    mount = find_cgroup2()
    assert mount is not None, "this machine cannot show it: no cgroup2"
    of_instance = Path(f"{mount.point}{cgroup_of(before[0])}").parent
    kill(warden)
    ours = [sleeper_in(of_instance / name) for name in ("attempt-1-00000000", "other")]
    strange = sleeper_in(of_instance.parent / "else")
    try:
        warden.start()
        status = warden.until_state("x", "ready", seconds=20)

        assert pids_of(warden) == before
        assert status["attempt"] == 1
        assert [one.wait(20) for one in ours] == [-9, -9]
        told = [one["text"] for one in warden.events("x") if one["event"] == "leftovers-ended"]
        assert any("1 process of attempt 1" in text for text in told)
        assert any("no attempt by its name" in text for text in told)
        assert strange.poll() is None
        (condition,) = warden.client.get("/v1/status")["daemon"]["conditions"]  # type: ignore[index]
        assert f"{of_instance.parent}/else: process {strange.pid}" in condition
        details = [
            line
            for check in json.loads(warden.command("doctor", "--json").stdout)["checks"]
            for line in check["details"]
        ]
        assert any(f"/else holds process {strange.pid}" in line for line in details)
    finally:
        strange.kill()
        strange.wait()
    (of_instance.parent / "else").rmdir()


def test_how_long_it_has_been_ready_outlives_any_number_of_daemons(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    serving(warden, instance("x", model))
    seen = []
    for _ in range(3):
        kill(warden)
        with sqlite3.connect(warden.directory / "state" / "history.db") as database:
            (text,) = database.execute("select document from attempts").fetchone()
        seen.append(json.loads(text)["ready_seconds"])
        warden.start()
        warden.until_state("x", "ready", seconds=20)
    assert seen == [seen[0]] * 3


def test_a_crash_after_the_takeover_is_diagnosed_from_the_whole_log(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    serving(warden, instance("x", model))
    kill(warden)
    warden.start()
    warden.until_state("x", "ready", seconds=20)

    os.kill(warden.status("x")["pids"]["parent"], signal.SIGKILL)

    warden.until(lambda: warden.status("x")["attempt"] == 2, 30, "it is relaunched")
    (incident,) = warden.incidents("x")
    assert incident["attempt"] == 1
    assert incident["diagnosis"]["phase"] == "serving"
    assert not incident["diagnosis"]["incomplete"]


def test_a_start_that_is_half_way_is_taken_over(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    slow = '{ WARDEN_SIMULATED_SPEED = "0.5" }'
    warden.write_config(instance("x", model, environment=slow))
    warden.start()
    warden.until(lambda: warden.status("x")["phase"] not in (None, "args"), 20, "it loads")
    assert warden.status("x")["state"] == "starting"
    kill(warden)
    warden.start()

    assert warden.until_state("x", "ready", seconds=60)["attempt"] == 1
    phases = [one["data"]["phase"] for one in warden.events("x") if one["event"] == "phase-entered"]
    assert "profile" in phases


def test_an_engine_that_died_while_no_daemon_watched_is_diagnosed(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    pids = serving(warden, instance("x", model))
    kill(warden)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    warden.until(lambda: living(pids) == [], 10, "all are gone")

    warden.start()

    warden.until(lambda: warden.status("x")["attempt"] == 2, 30, "it is relaunched")
    (incident,) = warden.incidents("x")
    assert incident["attempt"] == 1
    assert incident["diagnosis"]["phase"] == "serving"


def test_without_a_history_the_tree_of_groups_tells_what_runs(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    before = serving(warden, instance("x", model, engine="max_num_seqs = 64"))
    kill(warden)
    for path in (warden.directory / "state").glob("*"):
        if path.name.startswith(("history", "state")):
            path.unlink()

    warden.start()

    status = warden.until_state("x", "ready", seconds=20)
    assert pids_of(warden) == before
    assert status["attempt"] == 1
    assert warden.incidents("x") == []


def test_an_instance_that_is_no_longer_configured_is_ended(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    before = serving(warden, instance("x", model))
    kill(warden)
    warden.write_config(instance("y", model, autostart="false"))

    warden.start()

    warden.until(lambda: living(before) == [], 10, "the old engine is ended")


def test_a_stop_that_a_dying_daemon_had_begun_is_finished(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    before = serving(warden, instance("x", model, drain_seconds=60.0))
    os.kill(before[0], signal.SIGSTOP)  # the stop takes as long as it may
    warden.client.post("/v1/instances/x/stop")
    warden.until_state("x", "stopping", seconds=10)
    kill(warden)
    os.kill(before[0], signal.SIGCONT)

    warden.start()

    warden.until_state("x", "stopped", seconds=20)
    assert living(before) == []
    assert warden.incidents("x") == []


def test_a_daemon_that_is_stopped_at_once_stops_what_it_was_about_to_take_over(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    before = serving(warden, instance("x", model))
    kill(warden)
    warden.start()

    assert warden.stop() == 0

    assert living(before) == []


def test_a_hold_outlives_the_daemon_and_leaves_the_engine_alone(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    before = serving(warden, instance("x", model))
    warden.client.post("/v1/instances/x/hold")
    kill(warden)
    warden.start()
    warden.until_state("x", "ready", seconds=20)
    assert pids_of(warden) == before

    os.kill(before[0], signal.SIGKILL)

    assert warden.until_state("x", "held", seconds=20)["attempt"] == 1


def test_a_process_that_the_history_does_not_know_is_not_taken_for_the_engine(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    """Only its group is left: what an engine leaves behind is no engine."""
    parent, *engine = serving(warden, instance("x", model))
    kill(warden)
    os.kill(parent, signal.SIGKILL)

    warden.start()

    warden.until(lambda: warden.status("x")["attempt"] == 2, 30, "it is relaunched")
    assert living(engine) == []
    (incident,) = warden.incidents("x")
    assert incident["attempt"] == 1


def test_a_trial_is_still_one_after_the_takeover_and_its_way_back_stays(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    serving(warden, instance("x", model, engine="max_num_seqs = 64"))
    assert warden.command("restart", "x", "--set", "max_num_seqs=32").returncode == 0
    warden.until(lambda: warden.status("x")["attempt"] == 2, 30, "the trial starts")
    before = warden.until_state("x", "ready", seconds=20)
    assert before["trial"] is not None
    kill(warden)
    warden.start()

    after = warden.until_state("x", "ready", seconds=20)
    assert (after["trial"], after["attempt"]) == (before["trial"], 2)
    os.kill(after["pids"]["parent"], signal.SIGKILL)
    warden.until(lambda: warden.status("x")["attempt"] == 3, 30, "it is relaunched")
    last = warden.until_state("x", "ready", seconds=20)
    in_force = {one["name"]: one["in_force"] for one in last["settings"]}
    assert (last["trial"], in_force["max_num_seqs"]) == (None, 64)


def test_what_was_launched_before_the_settings_file_changed_runs_on_as_it_was_launched(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    old, new = free_port(), free_port()
    before = serving(
        warden,
        instance("x", model, port=old, stall_seconds=4.0, engine="max_num_seqs = 64"),
    )
    kill(warden)
    warden.write_config(
        instance("x", model, port=new, stall_seconds=4.0, engine="max_num_seqs = 32")
    )
    warden.start()
    status = warden.until_state("x", "ready", seconds=20)
    assert pids_of(warden) == before
    assert (status["port"], status["restart_pending"]) == (old, True)
    (told,) = [one["why"] for one in status["settings"] if one["name"] == "max_num_seqs"]
    assert told == "launched before the settings file was changed"
    assert complete(old, str(model))["choices"]

    assert warden.command("restart", "x").returncode == 0

    status = warden.until_state("x", "ready", seconds=20)
    assert (status["port"], status["restart_pending"], status["attempt"]) == (new, False, 2)
    assert not status["degraded"]


def test_of_two_engines_the_one_that_the_history_knows_is_taken_over(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    before = serving(warden, instance("x", model))
    mount = next(
        line.split()[4]
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if " - cgroup2 " in line
    )
    group = Path(mount + cgroup_of(before[0]))
    kill(warden)
    stray = group.parent / "attempt-9-deadbeef"
    stray.mkdir()
    with subprocess.Popen(["sleep", "600"]) as second:
        (stray / "cgroup.procs").write_text(str(second.pid))
        warden.start()
        status = warden.until_state("x", "ready", seconds=20)
        assert second.wait(20) == -signal.SIGKILL
    assert pids_of(warden) == before
    assert status["attempt"] == 1


@pytest.mark.parametrize(
    "state",
    [
        '{"schema": 1, "instances": {"x": 7}, "numbers": []}',
        '{"schema": 1, "instances": {"x": {"wanted": true}}, "numbers": {"event": "x"}}',
        '{"schema": 1, "instances": {"x": {"wanted": "maybe"}}, "numbers": {}}',
        '{"schema": 1, "instances": {"x": {"wanted": true, "ledger": {"a": 1}}}, "numbers": {}}',
        '{"schema": 99, "instances": {}, "numbers": {}}',
    ],
)
def test_a_state_file_that_is_not_ours_is_set_aside_and_ends_no_engine(
    warden: Warden, model: Path, instance: Callable[..., str], state: str
) -> None:
    before = serving(warden, instance("x", model))
    kill(warden)
    file = warden.directory / "state" / "state.json"
    file.write_text(state)

    warden.start()

    warden.until_state("x", "ready", seconds=20)
    assert pids_of(warden) == before
    assert file.with_name("state.json.corrupt").read_text() == state
    document: Any = warden.client.get("/v1/status")
    assert any("state.json" in one for one in document["daemon"]["conditions"])
