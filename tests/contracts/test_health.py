"""One contract for engine health: the fake, and real HTTP to a server that answers as vLLM does."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.fakes.health import FakeHealth
from vllm_warden.adapters.health.http import HttpHealth

METRICS = """\
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m } x"} 40.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2.0
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:generation_tokens_total{engine="0",model_name="m"} 1e+03
"""


class Engine(ThreadingHTTPServer):
    """Answers what a test sets; remembers what it was asked."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.health = 200
        self.completion = (200, {"choices": [{"text": "1"}]})
        self.hangs = False
        self.released = threading.Event()
        self.asked = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]


class Answers(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self):
        self.server.asked.append((self.path, dict(self.headers)))
        if self.path == "/health":
            self.answer(self.server.health, b"")
        elif self.path == "/v1/models":
            self.answer(200, json.dumps({"data": [{"id": "served-name"}]}).encode())
        else:
            self.answer(200, METRICS.encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        if self.server.hangs:
            self.server.released.wait(20)
        status, document = self.server.completion
        self.answer(status, json.dumps(document).encode())

    def answer(self, status, content):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


class FakeSide:
    port = 8000

    def __init__(self):
        self.health = FakeHealth()

    def healthy(self):
        self.health.status[8000] = 200
        self.health.served[8000] = 42

    def dead(self):
        self.health.status[8000] = 503

    def stuck(self):
        self.health.token_problem[8000] = "no token within 0.2 s"

    def gone(self):
        self.health.status.clear()


class RealSide:
    def __init__(self, engine):
        self.health = HttpHealth()
        self.engine = engine
        self.port = engine.port

    def healthy(self):
        self.engine.health = 200

    def dead(self):
        self.engine.health = 503

    def stuck(self):
        self.engine.hangs = True

    def gone(self):
        self.engine.shutdown()
        self.engine.server_close()


@pytest.fixture
def engine():
    made = Engine()
    yield made
    made.released.set()
    made.shutdown()
    made.server_close()


@pytest.fixture(params=["fake", "http"])
def side(request):
    return FakeSide() if request.param == "fake" else RealSide(request.getfixturevalue("engine"))


def ask(side, key=None, seconds=5.0):
    return side.health.generate_one_token("127.0.0.1", side.port, "m", key, seconds)


def test_a_healthy_engine_is_200_generates_and_counts(side):
    side.healthy()

    async def scenario():
        assert await side.health.check("127.0.0.1", side.port, 1.0) == 200
        assert await ask(side) is None
        found = await side.health.metrics("127.0.0.1", side.port)
        assert found is not None
        assert found.requests_served == 42

    asyncio.run(scenario())


def test_a_dead_engine_is_503(side):
    side.healthy()
    side.dead()
    assert asyncio.run(side.health.check("127.0.0.1", side.port, 1.0)) == 503


def test_a_stuck_engine_is_200_but_says_why_no_token_came(side):
    side.healthy()
    side.stuck()

    async def scenario():
        assert await side.health.check("127.0.0.1", side.port, 1.0) == 200
        assert await ask(side, seconds=0.2) == "no token within 0.2 s"

    asyncio.run(scenario())


def test_nobody_there_is_none_and_a_reason(side):
    side.healthy()
    side.gone()

    async def scenario():
        assert await side.health.check("127.0.0.1", side.port, 1.0) is None
        found = await side.health.metrics("127.0.0.1", side.port)
        assert found is None or found.requests_served is None
        assert (await ask(side) or "").startswith("no answer")

    asyncio.run(scenario())


async def complete(side, seconds=5.0):
    asked = await side.health.complete(
        "127.0.0.1", side.port, "m", "s3cret", prompts=[[5], [6, 7]], timeout_seconds=seconds
    )
    return await asyncio.gather(*asked)


def test_several_completions_are_asked_for_and_each_is_answered(side):
    side.healthy()
    assert asyncio.run(complete(side)) == [None, None]


def test_each_completion_says_why_it_was_not_answered(side):
    side.healthy()
    side.gone()
    found = asyncio.run(complete(side))
    assert [(one or "")[:9] for one in found] == ["no answer", "no answer"]


def test_completions_of_token_ids_name_the_servers_model_and_end_by_length(engine):
    asyncio.run(complete(RealSide(engine)))
    bodies = [one[2] for one in engine.asked if one[0] == "/v1/completions"]
    assert sorted(body["prompt"] for body in bodies) == [[5], [6, 7]]
    assert {(body["model"], body["max_tokens"], body["ignore_eos"]) for body in bodies} == {
        ("served-name", 4, True)
    }
    headers = {one[1]["Authorization"] for one in engine.asked}
    assert headers == {"Bearer s3cret"}


def test_a_completion_is_not_waited_for_longer_than_asked(engine):
    engine.hangs = True
    found = asyncio.run(complete(RealSide(engine), 0.2))
    assert found == ["no answer within 0.2 s"] * 2


def test_the_servers_own_model_name_and_the_key_are_used(engine):
    assert asyncio.run(ask(RealSide(engine), "s3cret")) is None
    path, headers, body = engine.asked[-1]
    assert path == "/v1/completions"
    assert headers["Authorization"] == "Bearer s3cret"
    assert body["model"] == "served-name"
    assert body["max_tokens"] == 1


@pytest.mark.parametrize(
    ("status", "document", "part"),
    [
        (401, {"error": "Unauthorized"}, "HTTP 401"),
        (500, {"error": {"message": "EngineDeadError"}}, "EngineDeadError"),
        (200, {"choices": []}, "empty list"),
        (200, [], "no completion"),
    ],
)
def test_other_answers_are_told(engine, status, document, part):
    engine.completion = (status, document)
    assert part in (asyncio.run(ask(RealSide(engine))) or "")


def test_a_server_without_completions_counts_as_working(engine):
    engine.completion = (404, {"detail": "Not Found"})
    assert asyncio.run(ask(RealSide(engine))) is None


def test_metrics_are_summed_over_labels(engine):
    found = asyncio.run(HttpHealth().metrics("127.0.0.1", engine.port))
    assert found is not None
    assert (found.requests_served, found.requests_running, found.generated_tokens) == (42, 3, 1000)
    assert found.requests_waiting == 1


def test_a_wildcard_address_is_asked_over_loopback_and_no_proxy_is_used(engine, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert asyncio.run(HttpHealth().check("0.0.0.0", engine.port, 2.0)) == 200


def answered_with(*parts):
    """What /health and /metrics make of a server that writes exactly this."""

    async def scenario():
        async def serve(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            health = HttpHealth()
            status = await health.check("127.0.0.1", port, 1.0)
            return status, await health.metrics("127.0.0.1", port, 1.0)

    return asyncio.run(scenario())


def test_metrics_in_chunks_are_put_together():
    """A prometheus_client application under uvicorn answers so, with no length."""
    text = METRICS.encode()
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    first, second = text[:70], text[70:]
    chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in (first, second)]
    _, found = answered_with(head, *chunks, b"0\r\n\r\n")
    assert found is not None
    assert found.requests_served == 42


def test_a_body_without_a_length_ends_with_the_connection():
    _, found = answered_with(b"HTTP/1.0 200 OK\r\n\r\n", METRICS.encode())
    assert found is not None
    assert found.requests_served == 42


@pytest.mark.parametrize(
    "parts",
    [
        [b""],
        [b"HTTP/1.1 200"],
        [b"SSH-2.0-OpenSSH_9.6\r\n\r\n"],
        [b"HTTP/1.1 two hundred\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
        [b"HTTP/1.1 200 OK\r\nX: ", b"x" * 200_000],
    ],
)
def test_what_is_no_whole_answer_is_none(parts):
    assert answered_with(*parts) == (None, None)


def test_a_key_with_a_line_break_is_never_sent(engine):
    problem = asyncio.run(ask(RealSide(engine), "key\r\nX-Injected: 1"))
    assert problem == "no answer: a header cannot be sent"
    assert engine.asked == []
