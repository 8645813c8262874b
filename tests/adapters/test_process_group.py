"""Without cgroups, no process is taken for an attempt's that is not certainly one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vllm_warden.adapters.cgroup.process_group import ProcessGroups, SessionAttempt
from vllm_warden.adapters.process.spawn import ProcessSpawner
from vllm_warden.core.plan.spec import LaunchPlan

LAUNCH = "aabbccdd00112233"
ORPHAN = 'sleep 600 & sleep 600 & exec sleep "$0"'


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def groups(tmp_path: Path) -> ProcessGroups:
    return ProcessGroups(tmp_path / "groups")


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a session of its own, as any service does."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    assert process.poll() is None, "a stranger was killed"
    process.kill()
    process.wait()


def stale(groups: ProcessGroups, pid: int, leader: str | None) -> SessionAttempt:
    """What an attempt leaves whose leader is gone and whose pid somebody else has by now."""
    group = groups.create("one", 1, LAUNCH)
    Path(group.path, "cgroup.procs").write_text(f"{pid}\n")
    if leader is not None:
        Path(group.path, "leader").write_text(leader)
    made = Path(group.path, "made")
    boot_id, _ = made.read_text().split()
    made.write_text(f"{boot_id} 1\n")
    return group


def run(group: SessionAttempt, script: str, environment: dict[str, str], output: int) -> int:
    """Spawn a shell; returns its pid once it has been reaped, or while it lives on."""
    plan = LaunchPlan(
        instance="one",
        attempt=1,
        launch_id=LAUNCH,
        argv=("sh", "-c", script, "600"),
        environment={"PATH": os.environ["PATH"], **environment},
        settings={},
    )

    async def scenario() -> int:
        child = ProcessSpawner().spawn(plan, group, output)
        if script.endswith("&"):
            ended = asyncio.get_running_loop().create_future()
            child.watch_exit(ended.set_result)
            await asyncio.wait_for(ended, 20)
        return child.identity.pid

    return asyncio.run(scenario())


@pytest.fixture
def output(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path / "output", os.O_WRONLY | os.O_CREAT)
    yield fd
    os.close(fd)


def test_a_pid_that_was_given_out_again_is_nobody_of_ours(
    groups: ProcessGroups, stranger: subprocess.Popen[bytes]
) -> None:
    group = stale(groups, stranger.pid, f"{stranger.pid} 5\n")
    assert group.pids() == ()
    group.kill()
    assert list(ProcessGroups(groups.root).leftovers()) == []


def test_without_word_of_the_leader_a_stranger_is_left_alone(groups: ProcessGroups) -> None:
    """Not our child, as after a restart of the daemon."""
    script = (
        "import os; os.fork() and os._exit(0); os.setsid(); print(os.getpid(), flush=True);"
        "os.close(1); os.execlp('sleep', 'sleep', '600')"
    )
    ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    pid = int(ran.stdout)
    until(lambda: command_of(pid) == b"sleep\x00600\x00")
    try:
        group = stale(groups, pid, None)
        assert group.pids() == ()
        group.kill()
        assert Path(f"/proc/{pid}").exists()
    finally:
        os.kill(pid, 9)


def test_a_living_leader_vouches_for_its_session(groups: ProcessGroups, output: int) -> None:
    group = groups.create("one", 1, LAUNCH)
    pid = run(group, ORPHAN, {}, output)
    until(lambda: bool(group.pids()))  # the shell has entered it
    [found] = ProcessGroups(groups.root).leftovers()
    until(lambda: len(found.pids()) == 3)
    assert pid in found.pids()
    found.kill()
    os.waitpid(pid, 0)
    until(found.is_empty)


@pytest.mark.parametrize("place", ["state", "elsewhere"])
def test_orphans_with_the_attempts_directory_are_its_own(
    groups: ProcessGroups, output: int, place: str
) -> None:
    directory = {"state": "/x/t/aabbccdd", "elsewhere": "/tmp/vllm-warden-aabbccdd"}[place]
    group = groups.create("one", 1, LAUNCH)
    run(group, "sleep 600 &", {"TMPDIR": directory}, output)
    [found] = ProcessGroups(groups.root).leftovers()
    assert len(found.pids()) == 1
    found.kill()
    until(found.is_empty)


def test_orphans_that_write_to_the_attempts_log_are_its_own(
    groups: ProcessGroups, tmp_path: Path
) -> None:
    """Engine processes that set a title have no environment any more."""
    log = os.open(tmp_path / f"attempt-1-{LAUNCH}.log", os.O_WRONLY | os.O_CREAT)
    group = groups.create("one", 1, LAUNCH)
    run(group, "sleep 600 &", {}, log)
    os.close(log)
    [found] = ProcessGroups(groups.root).leftovers()
    found.kill()
    until(found.is_empty)


def test_orphans_without_any_mark_are_known_only_to_who_saw_their_leader(
    groups: ProcessGroups, output: int
) -> None:
    group = groups.create("one", 1, LAUNCH)
    pid = run(group, ORPHAN, {}, output)
    until(lambda: len(group.pids()) == 3)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    assert len(group.pids()) == 2

    assert list(ProcessGroups(groups.root).leftovers()) == []

    groups.create("one", 1, LAUNCH)  # the registry entry is gone, and with it the way to them
    Path(group.path, "cgroup.procs").write_text(f"{pid}\n")
    made = Path(group.path, "made")
    made.write_text(f"{made.read_text().split()[0]} 1\n")
    group.kill()
    until(group.is_empty)


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
