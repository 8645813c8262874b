"""Engines are started as our children, in their group before exec, and their end is seen."""

import asyncio
import os
import pwd
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vllm_warden.adapters.cgroup.groups import open_groups
from vllm_warden.adapters.cgroup.process_group import ProcessGroups
from vllm_warden.adapters.process.errors import SpawnError
from vllm_warden.adapters.process.identity import identity_of
from vllm_warden.adapters.process.spawn import ProcessSpawner
from vllm_warden.adapters.process.watch_exit import adopt
from vllm_warden.core.plan.spec import LaunchPlan


def plan(*argv, user=None, environment=None):
    return LaunchPlan(
        instance="one",
        attempt=1,
        launch_id="0123456789abcdef",
        argv=argv,
        environment={"PATH": os.environ["PATH"], **(environment or {})},
        settings={},
        user=user,
    )


@pytest.fixture(params=["best", "process_group"])
def group(request, tmp_path):
    groups = open_groups(tmp_path) if request.param == "best" else ProcessGroups(tmp_path / "g")
    made = groups.create("one", 1, "0123456789abcdef")
    yield made
    made.kill()
    made.remove()


@pytest.fixture
def output(tmp_path):
    fd = os.open(tmp_path / "output", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    yield fd
    os.close(fd)


def text(fd):
    return os.pread(fd, 1 << 20, 0).decode()


async def run(launch, group, output):
    child = ProcessSpawner().spawn(launch, group, output)
    ended = asyncio.get_running_loop().create_future()
    child.watch_exit(ended.set_result)
    return child, await asyncio.wait_for(ended, 20)


def test_exit_code_and_output_arrive(group, output):
    _, status = asyncio.run(run(plan("sh", "-c", "echo out; echo err >&2; exit 7"), group, output))
    assert status == 7
    assert text(output) == "out\nerr\n"


def test_death_by_signal_is_negative(group, output):
    _, status = asyncio.run(run(plan("sh", "-c", "kill -SEGV $$"), group, output))
    assert status == -signal.SIGSEGV


def test_words_with_blanks_quotes_and_newlines_reach_the_program_unchanged(group, output):
    words = ["a b", "", "$HOME", "'", '"', "x\ny", "-n", "*"]
    script = "import sys; print(sys.argv[1:])"
    asyncio.run(run(plan(sys.executable, "-c", script, *words), group, output))
    assert text(output) == f"{words}\n"


def test_environment_is_exactly_the_plans(group, output):
    os.environ["WARDEN_TEST_LEAK"] = "1"
    script = "import os; print(sorted(k for k in os.environ if k not in {'PWD', 'LC_CTYPE'}))"
    launch = plan(sys.executable, "-c", script, environment={"ASKED": "yes"})
    asyncio.run(run(launch, group, output))
    del os.environ["WARDEN_TEST_LEAK"]
    assert text(output) == "['ASKED', 'PATH']\n"


def test_child_is_in_its_group_and_session_from_its_first_instruction(group, output):
    """What the program reads of itself first is already the group: nothing could be forked out."""
    script = (
        "import os; print(open('/proc/self/cgroup').read().split('0::')[-1].strip());"
        "print(os.getsid(0) == os.getpid()); print(os.readlink('/proc/self/fd/0'));"
        "print(sorted(int(f) for f in os.listdir('/proc/self/fd') if int(f) < 200)[:4])"
    )
    asyncio.run(run(plan(sys.executable, "-c", script), group, output))
    cgroup, leads, stdin, fds = text(output).splitlines()
    if group.kind == "cgroup":
        assert cgroup
        assert group.path.endswith(cgroup)
    assert leads == "True"
    assert stdin == "/dev/null"
    assert fds == "[0, 1, 2, 3]"  # 3 is the directory being listed


def test_group_knows_its_processes_and_kills_them(group, output):
    async def scenario():
        child = ProcessSpawner().spawn(plan("sh", "-c", "sleep 600 & sleep 600"), group, output)
        ended = asyncio.get_running_loop().create_future()
        child.watch_exit(ended.set_result)
        while len(group.pids()) < 3:
            await asyncio.sleep(0.005)
        assert child.identity.pid in group.pids()
        assert not group.is_empty()
        group.kill()
        assert await asyncio.wait_for(ended, 20) == -signal.SIGKILL
        while not group.is_empty():
            await asyncio.sleep(0.005)
        assert group.pids() == ()
        assert not child.signal(signal.SIGTERM)

    asyncio.run(scenario())


def test_another_user_runs_with_that_users_groups_only(group, output):
    account = pwd.getpwnam("nobody")
    launch = plan("sh", "-c", "id -u; id -g; id -G; umask", user="nobody")
    if os.geteuid() != 0:
        with pytest.raises(SpawnError, match="not root"):
            ProcessSpawner().spawn(launch, group, output)
        return
    before = os.getgroups()
    os.setgroups([0, 4])  # so that there is something to lose
    try:
        asyncio.run(run(launch, group, output))
    finally:
        os.setgroups(before)
    lines = text(output).splitlines()
    assert lines[:2] == [str(account.pw_uid), str(account.pw_gid)]
    assert "0" not in lines[2].split()
    assert lines[3] == "0027"


@pytest.mark.parametrize("user", [None, "nobody"])
def test_only_another_users_engine_is_kept_from_gaining_rights(group, output, user):
    """Our own user's may need a wrapper like sudo; the daemon itself stays as it was."""
    if os.geteuid() != 0:
        user = None
    before = rights(Path("/proc/self/task", str(threading.get_native_id()), "status").read_text())
    launch = plan("grep", "-E", "^(NoNewPrivs|Cap)", "/proc/self/status", user=user)
    asyncio.run(run(launch, group, output))
    seen = rights(text(output))
    if user is None:
        assert seen == before
    else:
        assert seen["NoNewPrivs"] == 1
        assert (seen["CapPrm"], seen["CapEff"], seen["CapAmb"]) == (0, 0, 0)
    after = rights(Path("/proc/self/task", str(threading.get_native_id()), "status").read_text())
    assert after == before


def rights(status):
    lines = [line.split(":", 1) for line in status.splitlines()]
    return {name: int(value, 16) for name, value in lines if name.startswith(("Cap", "NoNewPrivs"))}


@pytest.mark.parametrize(
    ("argv", "user", "part"),
    [
        (("/no/such/vllm", "serve"), None, "no such program"),
        (("no-such-vllm", "serve"), None, "on the engine's PATH"),
        (("/etc/passwd",), None, "not executable"),
        (("sh",), "no-such-user", "no such user"),
    ],
)
def test_hopeless_starts_say_why(group, output, argv, user, part):
    with pytest.raises(SpawnError, match=part) as caught:
        ProcessSpawner().spawn(plan(*argv, user=user), group, output)
    assert caught.value.hopeless


def test_script_of_a_moved_virtual_environment_is_named(group, output, tmp_path):
    script = tmp_path / "vllm"
    script.write_text("#!/no/such/python3\n")
    script.chmod(0o755)
    with pytest.raises(SpawnError, match="interpreter /no/such/python3"):
        ProcessSpawner().spawn(plan(str(script)), group, output)


def test_vanished_group_is_not_hopeless(group, output):
    group.remove()
    with pytest.raises(SpawnError) as caught:
        ProcessSpawner().spawn(plan("sh"), group, output)
    assert not caught.value.hopeless


def test_other_programs_started_meanwhile_do_not_steal_the_status(group, output):
    """Subprocess reaps children that were dropped while running when it starts the next one."""

    async def scenario():
        child = ProcessSpawner().spawn(plan("sh", "-c", "exit 3"), group, output)
        while os.waitid(os.P_PID, child.identity.pid, os.WEXITED | os.WNOWAIT) is None:
            pass
        subprocess.run(["true"], check=True)
        ended = asyncio.get_running_loop().create_future()
        child.watch_exit(ended.set_result)
        assert await asyncio.wait_for(ended, 20) == 3

    asyncio.run(scenario())


def test_children_that_come_and_go_in_one_loop_are_each_seen(group, output):
    """Descriptors are used again, so a watch that is over must be gone."""

    async def scenario():
        for code in range(5):
            child = ProcessSpawner().spawn(plan("sh", "-c", f"exit {code}"), group, output)
            ended = asyncio.get_running_loop().create_future()
            child.watch_exit(ended.set_result)
            assert await asyncio.wait_for(ended, 20) == code

    asyncio.run(scenario())


def test_adopted_process_ends_with_unknown_status():
    async def scenario():
        stranger = subprocess.Popen(["sleep", "600"])
        identity = identity_of(stranger.pid)
        assert identity is not None
        child = adopt(identity)
        assert child is not None
        ended = asyncio.get_running_loop().create_future()
        child.watch_exit(lambda status: ended.set_result("seen"))
        stranger.terminate()
        stranger.wait()
        assert await asyncio.wait_for(ended, 20) == "seen"
        assert adopt(identity) is None

    asyncio.run(scenario())
