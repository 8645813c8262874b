"""Whatever an engine answers, a question about its health ends in time and never fails."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_warden.adapters.health.exchange import ANSWER_BYTES_MAX
from vllm_warden.adapters.health.http import HttpHealth
from vllm_warden.adapters.health.metrics import EngineMetrics, parse_metrics

Answers = tuple[int | None, str | None, EngineMetrics | None]
"""Status of /health, problem of a completion, figures of /metrics."""
NESTED = b"[" * 200_000


async def ask_all(raw: bytes) -> Answers:
    """Every question, each answered with these bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.write(raw)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    health = HttpHealth()
    async with server:
        return (
            await health.check("127.0.0.1", port, 2.0),
            await health.generate_one_token("127.0.0.1", port, "m", None, 2.0),
            await health.metrics("127.0.0.1", port),
        )


def http(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(
    st.one_of(
        st.binary(max_size=60),
        st.binary(max_size=60).map(http),
        st.sampled_from([NESTED, b'{"data":' * 100_000, b'{"data":[{"id":1e999}]}']).map(http),
        st.sampled_from([b'{"data":7}', b'{"choices":7}', b'"data"', b"\xff\xfe", b"9" * 5000]).map(
            http
        ),
        VALUES.map(lambda value: http(repr({"data": value, "choices": value}).encode())),
        st.sampled_from([b"101 X", b"204 X", b"404 X", b"500 X", b"999 X"]).map(
            lambda status: http(b"{}", status)
        ),
        st.just(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"),
    )
)
@settings(max_examples=30, deadline=None)
def test_no_answer_makes_a_question_fail(raw: bytes) -> None:
    status, problem, _ = asyncio.run(ask_all(raw))
    assert status is None or isinstance(status, int)
    assert problem is None or len(problem) < 300


def test_nested_json_is_no_completion() -> None:
    _, problem, _ = asyncio.run(ask_all(http(NESTED)))
    assert problem is not None
    assert problem.startswith("HTTP 200, but no completion: [[[")


@pytest.mark.parametrize(
    "chunk", [b"1\r\nx\r\n", b"1000\r\n" + b"x" * 4096 + b"\r\n"], ids=["tiny", "large"]
)
def test_an_answer_without_end_is_refused_and_the_loop_runs_on(chunk: bytes) -> None:
    """The loop answers the API, too: no single step of it may take long."""
    body = chunk * (2 * ANSWER_BYTES_MAX // len(chunk))
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body

    async def scenario() -> tuple[Answers, float]:
        slowest, last, done = 0.0, time.thread_time(), False

        async def measure() -> None:
            nonlocal slowest, last
            while not done:
                await asyncio.sleep(0)
                now = time.thread_time()
                slowest, last = max(slowest, now - last), now

        measuring = asyncio.create_task(measure())
        seen = await ask_all(raw)
        done = True
        await measuring
        return seen, slowest

    (status, problem, served), slowest = asyncio.run(scenario())
    assert (status, served) == (None, None)
    assert problem is not None
    assert slowest < 0.25


@pytest.mark.parametrize(
    "line",
    [
        "vllm:num_requests_running 1\n",
        'vllm:request_success_total{a="} 7"} 1\n',
        "vllm:num_requests_running{" + "}" * 1000 + "\n",
        'other{a="b"} 1\n',
        "vllm:num_requests_running{",
        "vllm:num_requests_running\t",
    ],
)
def test_two_mebibytes_of_metrics_are_read_within_a_moment(line: str) -> None:
    text = line * (ANSWER_BYTES_MAX // len(line))
    began = time.thread_time()
    parse_metrics(text)
    assert time.thread_time() - began < 0.25


def test_numbers_that_are_none_count_as_unknown() -> None:
    text = (
        "vllm:num_requests_running 1e308\nvllm:num_requests_running 1e308\n"
        "vllm:request_success_total NaN\nvllm:generation_tokens_total 5\x0b6\n"
    )
    assert parse_metrics(text) == EngineMetrics(None, None, 5)
