"""The cgroup tree: mounts as other hosts have them, nested groups, counters and limits."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from vllm_warden.adapters.cgroup.attempt import CgroupAttempt
from vllm_warden.adapters.cgroup.groups import CgroupGroups, open_groups
from vllm_warden.adapters.cgroup.memory import memory_limit_bytes, oom_kills
from vllm_warden.adapters.cgroup.mount import find_cgroup2, own_cgroup2
from vllm_warden.adapters.cgroup.place import find_place, root_name
from vllm_warden.adapters.cgroup.process_group import ProcessGroups
from vllm_warden.core.launch_id import is_launch_id, launch_prefix

HYBRID = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / {mount} rw,relatime - cgroup2 cgroup2 rw
"""


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def delegated(monkeypatch):
    """Marks directories as systemd does, also where the file system of /tmp has no attributes."""
    marked: list[Path] = []

    def getxattr(path, name):
        if path in marked and name == "user.delegate":
            return b"1"
        raise OSError

    monkeypatch.setattr(os, "getxattr", getxattr)
    return marked


@pytest.fixture
def proc_self(tmp_path):
    """A /proc/self that says what a test wants it to say."""
    directory = tmp_path / "self"
    directory.mkdir()

    def write(mountinfo, cgroup):
        (directory / "mountinfo").write_text(mountinfo)
        (directory / "cgroup").write_text(cgroup)
        return directory

    return write


def test_hybrid_host_has_its_cgroup2_where_mountinfo_says(proc_self, tmp_path):
    mount = tmp_path / "uni fied"
    (mount / "x.service").mkdir(parents=True)
    escaped = str(mount).replace(" ", "\\040")
    found = proc_self(HYBRID.format(mount=escaped), "4:memory:/m\n0::/x.service\n")
    assert own_cgroup2(found) == mount / "x.service"


def test_container_without_cgroup_namespace_sees_its_part_of_the_tree(proc_self, tmp_path):
    info = f"41 31 0:38 /docker/abc {tmp_path} rw - cgroup2 cgroup2 rw\n"
    (tmp_path / "below").mkdir()
    assert own_cgroup2(proc_self(info, "0::/docker/abc/below\n")) == tmp_path / "below"
    assert own_cgroup2(proc_self(info, "0::/../elsewhere\n")) is None


def test_without_cgroup2_sessions_are_used(proc_self, tmp_path):
    info = "31 23 0:28 / / rw - ext4 /dev/root rw\n"
    found = proc_self(info, "4:memory:/\n")
    assert find_cgroup2(found) is None
    assert find_place(tmp_path, found) is None


def test_cgroups_are_used_where_cgroup2_is_writable(tmp_path):
    """The fallback must never be taken silently where the real thing works."""
    own = own_cgroup2()
    groups = open_groups(tmp_path)
    if own is not None and os.access(own, os.W_OK):
        assert groups.kind == "cgroup"
        assert groups.root.name == root_name(tmp_path)
        assert groups.root.parent == own
        assert not groups.root.exists()  # made with the first attempt, not before
    else:
        assert groups.kind == "process_group"


def test_delegated_unit_becomes_the_root_and_the_daemon_moves_aside(proc_self, tmp_path, delegated):
    unit = tmp_path / "vllm-warden.service"
    unit.mkdir()
    delegated.append(unit)
    info = f"41 31 0:38 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    (unit / "supervisor").mkdir()
    assert find_place(tmp_path, proc_self(info, "0::/vllm-warden.service\n")) == unit
    assert (unit / "supervisor" / "cgroup.procs").read_text() == f"{os.getpid()}\n"


def test_daemon_that_sits_in_supervisor_finds_its_unit(proc_self, tmp_path, delegated):
    unit = tmp_path / "vllm-warden.service"
    (unit / "supervisor").mkdir(parents=True)
    delegated.append(unit)
    info = f"41 31 0:38 / {tmp_path} rw - cgroup2 cgroup2 rw\n"
    assert find_place(tmp_path, proc_self(info, "0::/vllm-warden.service/supervisor\n")) == unit


def test_no_controller_is_ever_enabled(tmp_path):
    groups = open_groups(tmp_path)
    group = groups.create("one", 1, "00112233")
    if groups.kind == "cgroup":
        for directory in (groups.root, groups.root / "instance-one"):
            assert (directory / "cgroup.subtree_control").read_text().strip() == ""
    group.remove()


@pytest.fixture(params=["cgroup", "process_group"])
def groups(request, tmp_path):
    if request.param == "process_group":
        return ProcessGroups(tmp_path / "groups")
    return open_groups(tmp_path)


def test_living_attempts_are_found_again_and_dead_ones_swept(groups, tmp_path):
    living = groups.create("one", 3, "aabbccdd00")
    dead = groups.create("one", 2, "aabbccdd11")
    with Path(living.path, "cgroup.procs").open("w") as members:
        process = subprocess.Popen(
            ["sh", "-c", "echo $$ >&0; exec sleep 600"], stdin=members, start_new_session=True
        )
    wait_until(lambda: living.pids() == (process.pid,))
    again = open_groups(tmp_path) if groups.kind == "cgroup" else ProcessGroups(groups.root)
    [found] = again.leftovers()
    assert (found.instance, found.attempt, found.launch_prefix) == ("one", 3, "aabbccdd")
    assert found.pids() == (process.pid,)
    again.remove_empty()
    assert not Path(dead.path).exists()
    assert Path(living.path).exists()
    found.kill()
    assert process.wait() == -9
    assert list(again.leftovers()) == []
    again.remove_empty()
    assert not Path(living.path).exists()
    living.remove()  # gone already


def test_kill_reaches_what_left_the_session_and_groups_below(tmp_path):
    """Engines may make cgroups and sessions of their own; a cgroup holds them all the same."""
    groups = open_groups(tmp_path)
    if groups.kind != "cgroup":
        return
    group = groups.create("one", 1, "aabbccdd")
    below = Path(group.path, "below")
    below.mkdir()
    with (below / "cgroup.procs").open("w") as members:
        process = subprocess.Popen(
            ["sh", "-c", "echo $$ >&0; trap '' TERM; setsid sleep 600 & sleep 600"], stdin=members
        )
    wait_until(lambda: len(group.pids()) == 3)
    assert not group.is_empty()
    group.kill()
    process.wait()
    wait_until(group.is_empty)
    group.remove()
    assert not Path(group.path).exists()
    assert not groups.root.exists()


def test_kill_works_where_the_kernel_has_no_cgroup_kill(tmp_path, monkeypatch):
    directory = tmp_path / "attempt"
    directory.mkdir()
    process = subprocess.Popen(["sleep", "600"])
    (directory / "cgroup.procs").write_text(f"{process.pid}\n")
    (directory / "cgroup.kill").mkdir()  # cannot be written
    CgroupAttempt(directory, "one", 1, "00000000").kill()
    assert process.wait() == -9


def test_groups_below_each_other_may_be_deeper_than_python_recurses(tmp_path):
    deepest = tmp_path / "attempt"
    deepest.mkdir()
    for _ in range(1200):
        deepest /= "d"
        deepest.mkdir()
    group = CgroupAttempt(tmp_path / "attempt", "one", 1, "00000000")
    assert group.pids() == ()
    group.remove()
    assert not (tmp_path / "attempt").exists()


def test_a_launch_id_is_hexadecimal_and_names_have_its_first_digits():
    assert launch_prefix("aabbccdd00112233") == "aabbccdd"
    assert is_launch_id("aabbccdd")
    assert not any(map(is_launch_id, ("", "aabbccd", "Zürich42", "../../etc", "AABBCCDD")))


def sleeper_in(directory: Path) -> subprocess.Popen[bytes]:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "cgroup.procs").open("w") as members:
        return subprocess.Popen(["sh", "-c", "echo $$ >&0; exec sleep 600"], stdin=members)


@pytest.mark.parametrize(
    "name", ["attempt-x", "attempt-1", "attempt-1-AABBCCDD", "attempt-" + "9" * 5000 + "-0badcafe"]
)
def test_a_group_of_an_instance_that_bears_no_attempts_name_is_a_leftover(tmp_path, name):
    groups = open_groups(tmp_path)
    if groups.kind != "cgroup":
        return
    if len(name) > 255:
        name = name[:200] + "-0badcafe"
    process = sleeper_in(groups.root / "instance-one" / name)
    try:
        wait_until(lambda: bool(groups.leftovers()))
        [found] = groups.leftovers()
        assert (found.instance, found.attempt, found.launch_prefix) == ("one", 0, "")
        assert found.pids() == (process.pid,)
        assert list(groups.strange()) == []
        found.kill()
        assert process.wait(10) == -9
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not groups.leftovers())
    groups.remove_empty()
    assert not groups.root.exists()


@pytest.mark.parametrize("name", ["instance-UPPER/attempt-1-0badcafe", "else", "instance-one"])
def test_a_group_in_our_tree_that_is_of_no_instance_is_named_and_left_alone(tmp_path, name):
    groups = open_groups(tmp_path)
    if groups.kind != "cgroup":
        return
    process = sleeper_in(groups.root / name)
    try:
        wait_until(lambda: bool(groups.strange()))
        assert list(groups.leftovers()) == []
        groups.remove_empty()
        (told,) = groups.strange()
        assert str(groups.root / name.partition("/")[0]) in told
        assert str(process.pid) in told
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not groups.strange())
    for directory in (groups.root / name, (groups.root / name).parent, groups.root):
        if directory.is_dir() and directory != groups.root.parent:
            directory.rmdir()


def test_without_cgroups_a_nameless_entry_is_named_and_nothing_is_ended(tmp_path):
    groups = ProcessGroups(tmp_path / "groups")
    assert list(groups.strange()) == []
    groups.create("one", 1, "aabbccdd")
    assert list(groups.strange()) == []
    (groups.root / "instance-one" / "attempt-x").mkdir()
    (groups.root / "else").mkdir()
    assert list(groups.leftovers()) == []
    assert [Path(told.partition(":")[0]).name for told in groups.strange()] == ["attempt-x", "else"]


def test_counters_and_limits_are_read_in_both_versions(tmp_path):
    unit = tmp_path / "top" / "unit"
    unit.mkdir(parents=True)
    v1 = tmp_path / "v1"
    v1.mkdir()
    assert oom_kills(unit, None) == 0
    assert memory_limit_bytes(unit, v1) is None
    (v1 / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
    (v1 / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert oom_kills(unit, v1) == 4
    assert memory_limit_bytes(unit, v1) is None
    (unit / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n")
    (unit / "memory.max").write_text("max\n")
    (tmp_path / "top" / "memory.max").write_text("5000000\n")
    assert oom_kills(unit, v1) == 2
    assert memory_limit_bytes(unit, v1) == 5000000


def test_roots_of_a_daemon_started_elsewhere_are_searched_too(tmp_path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    attempt = elsewhere / "instance-one" / "attempt-1-00112233"
    attempt.mkdir(parents=True)
    here.mkdir()
    (attempt / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    [found] = CgroupGroups(here, [elsewhere]).leftovers()
    assert found.path == str(attempt)
