"""Who is an engine process, who listens, what limits hold: on real processes and hostile trees."""

import asyncio
import os
import socket
import subprocess
import sys
import threading

import pytest

from vllm_warden.adapters.process.ports import port_holder
from vllm_warden.adapters.process.proc_files import command_words, read_stat
from vllm_warden.adapters.process.tree import ProcessTree


class Proc:
    """A /proc in a directory, with what the adapters read."""

    def __init__(self, root):
        self.root = root
        self.tree = ProcessTree(root)

    def add(self, pid, ppid, title, *, name="python3", state="S", session=1):
        directory = self.root / str(pid)
        directory.mkdir()
        fields = [state, ppid, pid, session, *[0] * 15, 12345, 0, 0]
        stat = f"{pid} ({name}) " + " ".join(str(field) for field in fields)
        (directory / "stat").write_text(stat)
        (directory / "cmdline").write_bytes(title.encode() + b"\0" * 5)
        return pid

    def engines(self, parent):
        pids = [int(path.name) for path in self.root.iterdir()]
        return self.tree.engine_processes(pids, parent)


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


def test_core_and_workers_below_the_api_server_are_engine_processes(proc):
    proc.add(10, 1, "vllm\0serve\0model")
    proc.add(11, 10, "python3\0-c\0from multiprocessing.resource_tracker import main")
    proc.add(12, 10, "VLLM::EngineCore")
    proc.add(13, 12, "VLLM::Worker_TP0")
    proc.add(14, 12, "VLLM::Worker_TP1")
    assert proc.engines(10) == {
        12: "VLLM::EngineCore",
        13: "VLLM::Worker_TP0",
        14: "VLLM::Worker_TP1",
    }


def test_data_parallel_engines_below_a_launcher_count_but_coordinator_and_servers_do_not(proc):
    proc.add(10, 1, "sh\0-c\0vllm serve model")
    proc.add(11, 10, "vllm\0serve\0model")
    proc.add(12, 11, "VLLM::DPCoordinator")
    proc.add(13, 11, "VLLM::APIServer_0")
    proc.add(14, 11, "VLLM::EngineCore_DP0")
    proc.add(15, 11, "VLLM::DPEngineCore_DP1")
    proc.add(16, 14, "VLLM::Worker")
    assert set(proc.engines(10)) == {14, 15, 16}


def test_forks_that_wear_an_engines_title_do_not_count(proc):
    proc.add(10, 1, "vllm\0serve\0model")
    proc.add(12, 10, "VLLM::EngineCore")
    proc.add(13, 12, "VLLM::Worker_TP0")
    proc.add(20, 12, "VLLM::EngineCore")
    proc.add(21, 13, "VLLM::Worker_TP0")
    assert set(proc.engines(10)) == {12, 13}


def test_zombies_and_vanishing_processes_do_not_count(proc):
    proc.add(10, 1, "vllm\0serve\0model")
    proc.add(12, 10, "VLLM::EngineCore", state="Z")
    proc.add(13, 10, "VLLM::EngineCore_DP1")
    (proc.root / "13" / "stat").unlink()
    (proc.root / "14").mkdir()
    assert proc.engines(10) == {}
    assert proc.tree.engine_processes([999], 10) == {}


def test_names_with_parentheses_and_newlines_do_not_shift_the_fields(proc):
    proc.add(10, 7, "x", name="a) Z 1 (b\n) S 99 99")
    stat = read_stat(10, proc.root)
    assert stat is not None
    assert (stat.state, stat.ppid, stat.start_ticks) == ("S", 7, 12345)


def test_a_prompt_like_command_line_is_no_title(proc):
    proc.add(10, 1, "vllm")
    proc.add(11, 10, "VLLM::EngineCore rm -rf\n")
    proc.add(12, 10, "python3\0VLLM::EngineCore")
    assert proc.engines(10) == {}


def test_limit_of_the_address_space_is_read_from_the_process():
    child = subprocess.Popen(["prlimit", "--as=6442450944", "sleep", "600"])
    try:
        while command_words(child.pid)[0] != "sleep":
            assert child.poll() is None
        tree = ProcessTree()
        assert tree.limits(child.pid).address_space_bytes == 6442450944
        # right after exec the program's libraries are not mapped yet
        while (tree.address_space_bytes([child.pid, 2**22 + 1]) or 0) < 1 << 20:
            assert child.poll() is None
        assert (tree.address_space_bytes([child.pid]) or 0) < 6442450944
    finally:
        child.kill()
        child.wait()


def test_no_limit_and_no_process_are_none(tmp_path):
    assert ProcessTree().limits(os.getpid()).address_space_bytes is None
    assert ProcessTree(tmp_path).limits(1).address_space_bytes is None
    assert ProcessTree(tmp_path).address_space_bytes([1]) is None


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_listening_socket_belongs_to_its_process_only(family):
    with socket.socket(family) as listening:
        listening.bind(("localhost" if family is socket.AF_INET else "::1", 0))
        port = listening.getsockname()[1]
        tree = ProcessTree()
        assert not tree.listens([os.getpid()], port)  # bound, but nobody is served yet
        listening.listen()
        assert tree.listens([os.getpid()], port)
        assert not tree.listens([os.getppid()], port)
        assert not tree.listens([2**22 + 1], port)


def test_a_connection_that_outlived_its_listening_socket_is_no_listener():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = listening.accept()
    with client, served:
        assert not ProcessTree().listens([os.getpid()], port)


def test_a_taken_port_names_its_process():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        holder = port_holder("127.0.0.1", port)
        assert holder is not None
        assert f"pid {os.getpid()} (" in holder
    assert port_holder("127.0.0.1", port) is None


def test_the_holder_of_a_port_is_named_without_its_secrets():
    script = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        ["py", "-c", "exec(__import__('os').environ['S'])", "--api-key", "s3cret"],
        executable=sys.executable,
        env={**os.environ, "S": script},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        holder = port_holder("127.0.0.1", int(process.stdout.readline()))
    assert holder is not None
    assert f"pid {process.pid} (" in holder
    assert "--api-key ***" in holder
    assert "s3cret" not in holder


def test_an_address_that_is_not_ours_is_named():
    holder = port_holder("192.0.2.1", 8000)
    assert holder is not None
    assert "cannot be bound" in holder


def test_the_end_of_a_process_is_seen_although_its_parent_does_not_reap_it():
    """An engine core that its API server left as a zombie is dead."""
    script = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '600']);"
        "print(p.pid, flush=True); time.sleep(600)"
    )

    async def scenario(grandchild):
        ended = asyncio.Event()
        assert ProcessTree().watch_end(grandchild, ended.set)
        os.kill(grandchild, 9)
        await asyncio.wait_for(ended.wait(), 10)
        stat = read_stat(grandchild)
        assert stat is not None
        assert stat.is_dead

    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        asyncio.run(scenario(int(parent.stdout.readline())))
        parent.kill()


def test_the_end_of_a_process_that_is_gone_cannot_be_watched():
    child = subprocess.Popen(["true"])
    child.wait()

    async def scenario():
        return ProcessTree().watch_end(child.pid, threading.Event().set)

    assert not asyncio.run(scenario())


def test_orphans_are_reaped_and_our_own_children_are_not():
    """Runs in a process of its own, because a subreaper stays one."""
    script = """
import os, subprocess, sys, time
from vllm_warden.adapters.process.subreaper import become_subreaper, reap_orphans
become_subreaper()
engine = subprocess.Popen(["sh", "-c", "sleep 0.05 & exit 3"], start_new_session=True)
probe = subprocess.Popen(["sh", "-c", "exit 4"])
os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOWAIT)
os.waitid(os.P_PID, probe.pid, os.WEXITED | os.WNOWAIT)
reaped = []
deadline = time.monotonic() + 10
while not reaped and time.monotonic() < deadline:
    reaped += reap_orphans({engine.pid})
print(len(reaped), engine.wait(), probe.wait(), reap_orphans(()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "1 3 4 []\n", done.stderr
