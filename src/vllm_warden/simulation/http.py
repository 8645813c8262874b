"""Answers HTTP as vLLM's API server does, with sockets alone so that it starts fast."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}
REASONS |= {405: "Method Not Allowed", 500: "Internal Server Error", 503: "Service Unavailable"}
HEAD_LIMIT_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes = b""
    kind: str = "application/json"


def json_response(status: int, document: object) -> Response:
    return Response(status, json.dumps(document).encode())


def error_response(status: int, message: str, kind: str) -> Response:
    """An error in the form of the OpenAI API."""
    error = {"message": message, "type": kind, "param": None, "code": status}
    return json_response(status, {"error": error})


def answer(
    connection: socket.socket,
    respond: Callable[[Request], Response],
    log_access: Callable[[str, Request, int], None],
) -> None:
    """One request on one connection, which is closed afterwards."""
    with connection, contextlib.suppress(OSError, ValueError):
        connection.settimeout(600)
        request = read_request(connection)
        if request is None:
            return
        response = respond(request)
        reason = REASONS.get(response.status, "Unknown")
        head = (
            f"HTTP/1.1 {response.status} {reason}\r\nserver: uvicorn\r\n"
            f"content-length: {len(response.body)}\r\ncontent-type: {response.kind}\r\n"
            "connection: close\r\n\r\n"
        )
        peer = connection.getpeername()
        connection.sendall(head.encode() + response.body)
        log_access(f"{peer[0]}:{peer[1]}", request, response.status)


def read_request(connection: socket.socket) -> Request | None:
    """None when the client hung up first. Raises ValueError for something that is not HTTP."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more or len(data) > HEAD_LIMIT_BYTES:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    missing = int(headers.get("content-length", "0")) - len(body)
    while missing > 0:
        more = connection.recv(min(missing, 65536))
        if not more:
            return None
        body += more
        missing -= len(more)
    return Request(method, target.partition("?")[0], headers, body)


@dataclass(slots=True)
class Counters:
    """What /metrics shows."""

    started: float = field(default_factory=time.time)
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    succeeded: int = 0

    def text(self, model: str, blocks: int, utilization: float) -> str:
        label = f'engine="0",model_name="{model}"'
        rows = [
            ("gauge", "vllm:num_requests_running", label, self.running),
            ("gauge", "vllm:num_requests_waiting", label, self.waiting),
            ("gauge", "vllm:kv_cache_usage_perc", label, 0.0),
            ("counter", "vllm:num_preemptions_total", label, 0),
            ("counter", "vllm:prompt_tokens_total", label, self.prompt_tokens),
            ("counter", "vllm:generation_tokens_total", label, self.generation_tokens),
            (
                "counter",
                "vllm:request_success_total",
                f'{label},finished_reason="length"',
                self.succeeded,
            ),
            (
                "gauge",
                "vllm:cache_config_info",
                (
                    f'engine="0",block_size="16",gpu_memory_utilization="{utilization}",'
                    f'num_gpu_blocks="{blocks}"'
                ),
                1,
            ),
        ]
        lines = [
            f"# TYPE {name} {kind}\n{name}{{{labels}}} {float(value)}"
            for kind, name, labels, value in rows
        ]
        started = "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {}\n"
        return "\n".join(lines) + "\n" + started.format(self.started)
