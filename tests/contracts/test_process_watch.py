"""One contract for looking at processes: the fake tree and real processes with engine titles."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.process_watch import FakeProcessWatch
from vllm_warden.adapters.process.tree import ProcessTree

TITLED = """
import ctypes, os, subprocess, sys, time
child = subprocess.Popen(["VLLM::EngineCore", "600"], executable="/bin/sleep")
print(child.pid, flush=True)
time.sleep(600)
"""


class FakeSide:
    def __init__(self):
        self.watch = FakeProcessWatch()
        self.parent, self.core = 10, 11
        self.watch.titles[11] = "VLLM::EngineCore"

    def kill_core(self):
        self.watch.end(self.core)

    def listen(self):
        self.watch.listening.add((self.parent, 8000))
        return self.parent, 8000


class RealSide:
    def __init__(self):
        self.watch = ProcessTree()
        self.process = subprocess.Popen([sys.executable, "-c", TITLED], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.parent = self.process.pid
        self.core = int(self.process.stdout.readline())
        while not Path(f"/proc/{self.core}/cmdline").read_bytes():
            time.sleep(0.002)  # the kernel shows it a moment after exec
        self.socket = socket.socket()

    def kill_core(self):
        os.kill(self.core, 9)

    def listen(self):
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen()
        return os.getpid(), self.socket.getsockname()[1]

    def close(self):
        self.socket.close()
        for pid in (self.core, self.parent):
            os.kill(pid, 9)
        self.process.wait()


@pytest.fixture(params=["fake", "proc"])
def side(request):
    made = FakeSide() if request.param == "fake" else RealSide()
    yield made
    if isinstance(made, RealSide):
        made.close()


def test_the_core_is_found_by_its_title_and_the_parent_is_none(side):
    found = side.watch.engine_processes([side.parent, side.core], side.parent)
    assert found == {side.core: "VLLM::EngineCore"}


def test_the_end_of_the_core_is_told_once(side):
    async def scenario():
        ends = []
        assert side.watch.watch_end(side.core, lambda: ends.append(1))
        side.kill_core()
        async with asyncio.timeout(20):
            while not ends:
                await asyncio.sleep(0.002)
        await asyncio.sleep(0.02)
        assert ends == [1]
        assert side.watch.engine_processes([side.core], side.parent) == {}

    asyncio.run(scenario())


def test_only_the_process_that_listens_listens(side):
    pid, port = side.listen()
    assert side.watch.listens([pid], port)
    assert not side.watch.listens([side.core], port)


def test_what_remains_is_named_and_what_is_gone_is_not(side):
    (remaining,) = side.watch.remaining([side.core, 2**22 + 5])
    assert (remaining.pid, remaining.waits_in) == (side.core, None)
    assert remaining.name


IN_THE_KERNEL = """
import ctypes
libc = ctypes.CDLL(None)
if libc.vfork() == 0:  # until the child is gone its parent waits in the kernel
    libc.sleep(600)
    libc._exit(0)
"""


def test_a_process_that_waits_in_the_kernel_is_told_from_one_that_runs():
    with subprocess.Popen([sys.executable, "-c", IN_THE_KERNEL]) as process:
        try:
            deadline = time.monotonic() + 30
            while not (children := _children(process.pid)) and time.monotonic() < deadline:
                time.sleep(0.01)
            (remaining,) = ProcessTree().remaining([process.pid])
            assert remaining.waits_in is not None
            assert "clone" in remaining.waits_in or not remaining.waits_in
            (child,) = children
            (sleeper,) = ProcessTree().remaining([child])
            assert sleeper.waits_in is None
        finally:
            for pid in (*_children(process.pid), process.pid):
                os.kill(pid, 9)


def _children(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_unknown_limits_are_none(side):
    assert side.watch.limits(2**22 + 5).address_space_bytes is None
    assert side.watch.address_space_bytes([2**22 + 5]) is None
