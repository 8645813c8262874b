"""Long logs over the API: whole, never in the way of others, and never piled up for a reader."""

import asyncio
import gc
import json
import socket
import time
import weakref

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService
from vllm_warden.api import line_answer
from vllm_warden.api.line_answer import left_out, pieces

COUNT = 9000
TEXT = "x" * 900


class Lines(list[object]):
    """A list that knows how far it was read, and can be watched for being freed."""

    taken = 0

    def __iter__(self):
        for line in super().__iter__():
            self.taken += 1
            yield line


class LongLog(FakeService):
    def __init__(self):
        super().__init__(documents.status(documents.instance()))
        self.answers = []
        self.worst_seconds = 0.0

    async def logs(self, name, attempt, last):
        lines = Lines({"attempt": 1, "line": n, "text": TEXT} for n in range(1, COUNT + 1))
        self.answers.append(weakref.ref(lines))
        return lines

    async def watch_loop(self):
        """The longest work of the loop's thread between two turns of the loop."""
        self.worst_seconds = 0.0
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.001)
            self.worst_seconds = max(self.worst_seconds, time.thread_time() - began)


def ask(path, last=100_000):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    request = f"GET /v1/instances/minimax-m25/logs?last={last} HTTP/1.1\r\nHost: x\r\n\r\n"
    connection.sendall(request.encode())
    return connection


def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def server(start_server):
    return start_server(LongLog)


def test_a_long_log_arrives_whole_and_says_what_is_missing(server):
    answer = server.client.get("/v1/instances/minimax-m25/logs", {"last": 100_000})
    assert [line["line"] for line in answer["lines"]] == list(range(1, COUNT + 1))
    assert answer["left_out"] == 0


def test_the_loop_goes_on_while_a_long_log_is_sent(server):
    async def watched():
        return asyncio.create_task(server.service.watch_loop())

    times = []
    for _ in range(3):
        task = server.call(watched())
        server.client.get("/v1/instances/minimax-m25/logs", {"last": 100_000})
        times.append(server.service.worst_seconds)
        task.get_loop().call_soon_threadsafe(task.cancel)
    assert min(times) < 0.05


def test_readers_that_do_not_read_make_nobody_write_for_them(server):
    connections = [ask(server.path) for _ in range(6)]
    until(lambda: len(server.service.answers) == 6)
    server.client.get("/v1/status")
    server.client.get("/v1/instances/minimax-m25/logs", {"last": 100_000})
    for answer in server.service.answers[:6]:
        assert 0 < answer().taken * len(TEXT) < 1 << 20
    for connection in connections:
        connection.close()


def test_a_reader_that_takes_nothing_is_left_and_its_lines_are_freed(server, monkeypatch):
    monkeypatch.setattr(line_answer, "PATIENCE_SECONDS", 0.2)
    connection = ask(server.path)
    until(lambda: server.service.answers)
    answer = server.service.answers[0]
    until(lambda: (gc.collect(), answer())[1] is None)
    connection.close()


def test_pieces_are_small_and_make_one_document():
    lines = [{"attempt": 1, "line": n, "text": 'a "\u20ac"\n' * 50} for n in range(1, 2001)]
    parts = list(pieces(lines, 7))
    assert max(len(part) for part in parts) < 80_000
    assert json.loads(b"".join(parts)) == {"lines": lines, "left_out": 7}
    assert json.loads(b"".join(pieces([], 0))) == {"lines": [], "left_out": 0}


@pytest.mark.parametrize(
    ("numbers", "last", "missing"),
    [([1, 2, 3], 100, 0), ([2, 3], 2, 0), ([3], 3, 2), ([1, 9], 100, 7), ([], 5, 0)],
)
def test_lines_that_were_asked_for_and_are_not_there_are_counted(numbers, last, missing):
    assert left_out([{"line": number} for number in numbers], last) == missing
