"""Clients that mean no good, or are broken: others must still be answered."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from vllm_warden.api import client as client_module
from vllm_warden.api.client import Client, DaemonUnreachable
from vllm_warden.api.protocol import SocketProtocol

HALVES = (
    b"",
    b"GET /v1/sta",
    b"POST /v1/instances/minimax-m25/stop HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
)
STATUS = b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n"


def connect(server) -> socket.socket:
    raw = socket.socket(socket.AF_UNIX)
    raw.settimeout(10)
    raw.connect(server.path)
    return raw


def everything(raw: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := raw.recv(65536):
            received += chunk
    return received


def read_answer(connection: socket.socket, path: str) -> bytes:
    reader = client_module._Reader(connection, path)
    reader.head()
    return reader.rest()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/status HTTP/x\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"y" * 20_000,
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: y\r\n" % n for n in range(3000)),
    ],
)
def test_garbage_is_answered_with_a_problem_and_closed(server, garbage):
    with connect(server) as raw:
        raw.sendall(garbage)
        answer = everything(raw)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in answer
    assert server.client.get("/v1/status")["schema"] == 1


def test_garbage_behind_a_good_request_does_not_break_the_daemon(server, caplog):
    with connect(server) as raw:
        raw.sendall(b"GET /v1/events?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n\x00\x01 garbage\r\n\r\n")
        assert b"200 OK" in raw.recv(65536)
    assert server.client.get("/v1/status")["schema"] == 1
    assert not caplog.records


def test_garbage_after_an_early_answer_does_not_break_the_daemon(server, caplog):
    with connect(server) as raw:
        raw.sendall(b"GET /v1/status HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}]}"):
            answer += raw.recv(65536)
        raw.sendall(b"no chunk\r\n")
        assert everything(raw) == b""
    assert server.client.get("/v1/status")["schema"] == 1
    assert not caplog.records


def test_a_body_larger_than_allowed_is_refused_before_it_has_arrived(server):
    with connect(server) as raw:
        raw.sendall(
            b"POST /v1/instances/minimax-m25/stop HTTP/1.1\r\nHost: x\r\n"
            b"Content-Length: 1000000000\r\n\r\n" + b"x" * 70_000
        )
        assert b"413" in raw.recv(65536)
    assert server.service.changes == []


def test_half_a_request_is_dropped_after_a_while(start_server, monkeypatch):
    monkeypatch.setattr(SocketProtocol, "request_seconds", 0.2)
    server = start_server()
    for half in HALVES:
        started = time.monotonic()
        with connect(server) as raw:
            raw.sendall(half)
            everything(raw)
        assert 0.1 < time.monotonic() - started < 5
    assert server.service.changes == []


def test_half_a_second_request_is_dropped_too(start_server, monkeypatch):
    monkeypatch.setattr(SocketProtocol, "request_seconds", 0.2)
    server = start_server()
    with connect(server) as raw:
        time.sleep(0.15)
        raw.sendall(STATUS)
        assert b"200 OK" in raw.recv(65536)
        started = time.monotonic()
        raw.sendall(b"GET /v1/st")
        everything(raw)
        assert 0.12 < time.monotonic() - started < 5, "each request has its own time"


def test_an_open_stream_outlives_the_time_for_requests(start_server, monkeypatch):
    monkeypatch.setattr(SocketProtocol, "request_seconds", 0.1)
    server = start_server()
    events = server.client.stream("/v1/events", {"follow": 1}, 0.4)
    assert next(events) is None
    server.publish("a", "x", "still here")
    found = None
    while found is None:
        found = next(events)
    assert found["text"] == "still here"
    events.close()


def test_many_idle_connections_do_not_stop_others(server):
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(connect(server)) for _ in range(300)]
        assert server.client.get("/v1/status")["schema"] == 1
        crowd[-1].sendall(STATUS)
        assert b"200 OK" in crowd[-1].recv(65536)
        assert crowd[0].recv(1) == b"", "the oldest idle connection is given up first"


def test_too_many_streams_of_one_user_are_refused_and_end_nobody_elses(start_server, monkeypatch):
    monkeypatch.setattr(SocketProtocol, "connections_per_user", 3)
    server = start_server()
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(connect(server)) for _ in range(3)]
        for raw in streams:
            raw.sendall(b"GET /v1/events?follow=1 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in raw.recv(65536)
        with connect(server) as one_more:
            answer = everything(one_more)
        assert b"503" in answer
        assert b"close some event or log streams" in answer
        server.publish("a", "x", "alive")
        for raw in streams:
            received = b""
            while b"alive" not in received:
                received += raw.recv(65536)


def test_a_thousand_requests_leave_no_connection_behind(server):
    for _ in range(1000):
        server.client.get("/v1/instances")
    deadline = time.monotonic() + 5
    while server.server._server.server_state.connections:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "without an answer"),
        (b"SSH-2.0-x\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", "cut short"),
    ],
)
def test_the_client_explains_a_peer_that_is_no_daemon(tmp_path, answer, reason):
    path = str(tmp_path / "x.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        client = Client(path)
        connection = client._connect()
        accepted, _ = listener.accept()
        accepted.sendall(answer)
        accepted.close()
        with connection, pytest.raises(DaemonUnreachable, match=reason):
            read_answer(connection, path)


def test_the_client_gives_up_on_a_daemon_that_does_not_answer(tmp_path):
    path = str(tmp_path / "x.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with pytest.raises(DaemonUnreachable, match="no answer in time"):
            Client(path, timeout_seconds=0.1).get("/v1/status")
