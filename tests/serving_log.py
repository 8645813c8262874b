"""Writes the log of an engine that served for weeks and then died, as long as is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CAPTURED = Path(__file__).parent / "corpus" / "captured"
DEATH = CAPTURED / "0.13.0" / "15-sigkill-engine-serving.log"
TAG = "(APIServer pid=31215) "
AT = "INFO 11-29 12:00:{second:02d} "


def serving_lines(number: int) -> Iterator[str]:
    """What one second of serving prints: four requests, their answers, now and then the rates."""
    second = number % 60
    at = AT.format(second=second)
    for request in range(4):
        name = f"chatcmpl-{number:08x}{request:08x}"
        client = f"10.0.{request}.7:{40000 + number % 20000}"
        yield f'{TAG}INFO:     {client} - "GET /health HTTP/1.1" 200 OK'
        yield f"{TAG}{at}[async_llm.py:420] Added request {name}."
        yield f'{TAG}INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    if number % 10 == 0:
        yield (
            f"{TAG}{at}[loggers.py:248] Engine 000: Avg prompt throughput: {number % 977}.4"
            f" tokens/s, Avg generation throughput: {1 + number % 731}.9 tokens/s, Running: 4 reqs,"
            " Waiting: 0 reqs, GPU KV cache usage: 12.9%, Prefix cache hit rate: 41.0%"
        )
    if number % 7 == 0:
        prompt = "It is said that the error \\'CUDA out of memory\\' \\n means " + "that " * 40
        yield (
            f"{TAG}{at}[logger.py:43] Received request chatcmpl-{number}: prompt: '{prompt}',"
            " params: SamplingParams(n=1, temperature=0.7), lora_request: None."
        )


def write_serving_log(path: Path, size_bytes: int) -> int:
    """Start, service and death; returns the size."""
    lines = DEATH.read_bytes().split(b"\n")
    start = next(at for at, line in enumerate(lines) if b"Application startup complete" in line) + 1
    minute = [
        "".join(f"{line}\n" for line in serving_lines(number)).encode() for number in range(4200)
    ]
    with path.open("wb") as file:
        file.write(b"\n".join(lines[:start]) + b"\n")
        number = 0
        while file.tell() < size_bytes:
            file.write(minute[number % len(minute)])
            number += 1
        file.write(b"\n".join(lines[start:]))
        return file.tell()
