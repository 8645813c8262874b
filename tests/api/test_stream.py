from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService
from vllm_warden.api import stream
from vllm_warden.api.stream import Backlog, encode, server_sent_events


def texts(server, count: int, **query: object) -> list[object]:
    found: list[object] = []
    for event in server.client.stream("/v1/events", {"follow": 1, **query}, 5):
        assert event is not None, "no event in five seconds"
        found.append(event["text"])
        if len(found) == count:
            break
    return found


def wait_until(condition) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_old_events_come_first_then_new_ones_as_they_happen(server):
    server.publish("a", "x", "one")
    server.publish("a", "x", "two")

    def publish_once_somebody_reads() -> None:
        wait_until(lambda: server.service.streams_open)
        server.publish("a", "x", "three")

    wait_then_publish = threading.Thread(target=publish_once_somebody_reads)
    wait_then_publish.start()
    assert texts(server, 2, after=1) == ["two", "three"]
    wait_then_publish.join()


def test_a_reader_that_leaves_frees_its_stream(server):
    server.publish("a", "x", "one")
    assert texts(server, 1) == ["one"]
    wait_until(lambda: server.service.streams_open == 0)


def test_last_event_id_resumes_a_stream(server):
    server.publish("a", "x", "one")
    server.publish("a", "x", "two")
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(server.path)
        raw.settimeout(10)
        raw.sendall(
            b"GET /v1/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n"
            b"Last-Event-ID: 1\r\n\r\n"
        )
        received = b""
        while b"two" not in received:
            received += raw.recv(4096)
    assert b"one" not in received
    assert b"id: 2\n" in received


def test_a_stream_says_nothing_in_a_quiet_time_and_lives_on(server):
    events = server.client.stream("/v1/events", {"follow": 1}, 0.05)
    assert next(events) is None
    server.publish("a", "x", "late")
    found = None
    while found is None:
        found = next(events)
    assert found["text"] == "late"
    events.close()


def test_text_with_line_ends_stays_one_message():
    assert encode({"number": 3, "text": "a\n\ndata: b\r"}).count(b"\n") == 3


def test_a_slow_reader_loses_events_is_told_how_many_and_memory_stays_bounded():
    async def scenario() -> None:
        backlog = Backlog(capacity=4, patience_seconds=0.01)
        for number in range(100):
            await backlog.put({"number": number})
        assert len(backlog._items) == 4
        await backlog.end()
        taken = []
        while (document := await backlog.take()) is not None:
            taken.append(document)
        assert taken == [*({"number": n} for n in range(4)), {"dropped": 96}]

    asyncio.run(scenario())


def test_the_gap_is_told_where_it_was():
    async def scenario() -> None:
        backlog = Backlog(capacity=2, patience_seconds=0.01)
        for number in range(4):
            await backlog.put({"number": number})
        assert await backlog.take() == {"number": 0}
        await backlog.put({"number": 4})
        taken = [await backlog.take() for _ in range(3)]
        assert taken == [{"number": 1}, {"dropped": 2}, {"number": 4}]

    asyncio.run(scenario())


def test_a_reader_that_keeps_up_loses_nothing():
    async def scenario() -> None:
        async def source():
            for number in range(2000):
                yield {"number": number}

        queue = Backlog(capacity=8)
        chunks = [c async for c in server_sent_events(source(), asyncio.Event(), queue)]
        assert len(chunks) == 2001
        assert not any(b"dropped" in chunk for chunk in chunks)

    asyncio.run(scenario())


def test_a_source_that_fails_ends_its_stream_and_is_logged(caplog):
    async def scenario() -> None:
        async def source():
            yield {"number": 1}
            raise ValueError("broken")

        chunks = [c async for c in server_sent_events(source(), asyncio.Event())]
        assert len(chunks) == 2

    asyncio.run(scenario())
    assert "its source failed" in caplog.text


def test_a_quiet_stream_is_kept_alive():
    async def scenario() -> None:
        async def source():
            await asyncio.sleep(60)
            yield {}

        chunks = server_sent_events(source(), asyncio.Event(), keep_alive_seconds=0.01)
        assert [await anext(chunks) for _ in range(2)] == [b": connected\n\n", b": keep-alive\n\n"]
        await chunks.aclose()  # type: ignore[attr-defined]

    asyncio.run(scenario())


def test_a_socket_that_is_never_read_does_not_grow_the_daemon(start_server, monkeypatch):
    monkeypatch.setattr(stream, "PATIENCE_SECONDS", 0.01)
    produced = threading.Event()

    class Flood(FakeService):
        async def follow_events(self, after):
            for number in range(1, 20_001):
                yield {"number": number, "text": "x" * 1000}
                if number % 500 == 0:
                    await asyncio.sleep(0)
            produced.set()

    server = start_server(lambda: Flood(documents.status()))
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(server.path)
        raw.sendall(b"GET /v1/events?follow=1 HTTP/1.0\r\nHost: x\r\n\r\n")
        assert produced.wait(30), "a reader that does not read held the source up"
        assert server.client.get("/v1/status")["schema"] == 1
        received = b""
        raw.settimeout(10)
        while chunk := raw.recv(1 << 20):
            received += chunk
    assert b'"dropped"' in received
    assert len(received) < 4 << 20


@pytest.mark.parametrize("accept", ["text/event-stream", "text/event-stream, */*"])
def test_a_stream_is_chosen_by_its_accept_header_too(server, accept):
    server.publish("a", "x", "one")
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(server.path)
        raw.settimeout(10)
        raw.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n".encode())
        assert b"text/event-stream" in raw.recv(4096)
