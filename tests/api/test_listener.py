from __future__ import annotations

import asyncio
import grp
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService
from vllm_warden.api.client import Client, DaemonUnreachable
from vllm_warden.api.listener import SocketInUse, SocketProblem, open_listener
from vllm_warden.api.server import serve_socket

LISTEN = """
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print(flush=True)
time.sleep(60)
"""


def test_the_socket_is_for_owner_and_group_only(tmp_path):
    group = grp.getgrgid(1).gr_name
    path = tmp_path / "run" / "deep" / "api.sock"
    old = os.umask(0)
    try:
        open_listener(str(path), group).close()
    finally:
        os.umask(old)
    mode = path.stat()
    assert stat.S_IMODE(mode.st_mode) == 0o660
    assert mode.st_gid == 1
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


def test_a_group_that_does_not_exist_leaves_the_socket_to_its_owner(tmp_path):
    path = tmp_path / "api.sock"
    open_listener(str(path), "no-such-group-here").close()
    assert path.stat().st_gid == os.getegid()
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_a_socket_of_a_live_process_is_refused_with_its_pid(tmp_path):
    path = str(tmp_path / "api.sock")
    first = open_listener(path, None)
    with pytest.raises(SocketInUse, match=f"process {os.getpid()} listens") as caught:
        open_listener(path, None)
    assert caught.value.pid == os.getpid()
    first.close()


def test_a_live_process_with_a_full_backlog_still_counts_as_alive(tmp_path):
    path = str(tmp_path / "api.sock")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as waiting:
        listener.bind(path)
        listener.listen(0)
        waiting.connect(path)
        with pytest.raises(SocketInUse):
            open_listener(path, None)


def test_a_stale_socket_is_taken_over(tmp_path):
    path = str(tmp_path / "api.sock")
    dead = subprocess.Popen([sys.executable, "-c", LISTEN, path], stdout=subprocess.PIPE)
    assert dead.stdout is not None
    dead.stdout.readline()
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    dead.stdout.close()
    listener = open_listener(path, None)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
    listener.close()


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    path = tmp_path / "api.sock"
    path.write_text("precious")
    with pytest.raises(SocketProblem, match="no socket is there"):
        open_listener(str(path), None)
    assert path.read_text() == "precious"


def test_a_path_that_is_too_long_or_not_writable_is_explained(tmp_path):
    with pytest.raises(SocketProblem, match="more than 107 bytes"):
        open_listener("/tmp/" + "x" * 120, None)
    (tmp_path / "file").touch()
    with pytest.raises(SocketProblem, match="cannot listen on"):
        open_listener(str(tmp_path / "file" / "api.sock"), None)


def test_stopping_ends_streams_removes_the_path_and_takes_no_signal_handler(tmp_path, caplog):
    path = str(tmp_path / "api.sock")

    def read_to_the_end() -> int:
        return sum(1 for _ in Client(path).stream("/v1/events", {"follow": 1}))

    async def scenario() -> int:
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        service = FakeService(documents.status(documents.instance()))
        service.publish("minimax-m25", "x", "one")
        server = await serve_socket(service, path, None)
        assert before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
        reader = asyncio.get_running_loop().run_in_executor(None, read_to_the_end)
        while not service.streams_open:
            await asyncio.sleep(0.01)
        async with asyncio.timeout(3):
            await server.stop()
            count = await reader
        await server.stop()
        assert server.started is False
        assert service.streams_open == 0
        return count

    assert asyncio.run(scenario()) == 1
    assert not caplog.records, "a stream had to be cancelled"
    assert not Path(path).exists()
    with pytest.raises(DaemonUnreachable, match="no such socket"):
        Client(path).get("/v1/status")


def test_stopping_leaves_the_socket_of_a_successor(tmp_path):
    path = tmp_path / "api.sock"

    async def scenario() -> None:
        server = await serve_socket(FakeService(documents.status()), str(path), None)
        path.rename(tmp_path / "old.sock")
        successor = open_listener(str(path), None)
        await server.stop()
        assert path.exists()
        successor.close()

    asyncio.run(scenario())


def test_a_stopped_daemon_is_told_apart_from_one_that_never_was(tmp_path):
    path = str(tmp_path / "api.sock")
    open_listener(path, None).close()
    with pytest.raises(DaemonUnreachable, match="it is not running"):
        Client(path).get("/v1/status")
