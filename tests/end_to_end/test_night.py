"""Things that go wrong together: leftovers, many starts at once, engines that never answer."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wardens import Warden, living

pytestmark = pytest.mark.slow

NEVER_ANSWERS = """#!{python}
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print('INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 500', flush=True)
        self.send_response(500)
        self.end_headers()
    def log_message(self, *_):
        pass
port = int(sys.argv[sys.argv.index("--port") + 1])
print("INFO:     Application startup complete.", flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def test_what_a_killed_daemon_left_of_an_unwanted_instance_is_ended_too(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("x", model))
    warden.start()
    old = warden.until_state("x", "ready", seconds=20)["pids"]["parent"]
    assert warden.process is not None
    warden.process.kill()
    warden.process.wait()
    state = warden.directory / "state" / "state.json"
    document = json.loads(state.read_text())
    document["instances"]["x"]["wanted"] = False
    state.write_text(json.dumps(document))

    warden.start()

    warden.until(lambda: living([old]) == [], 10, "the old engine is ended")
    warden.until_state("x", "stopped", seconds=10)


def test_the_limit_of_concurrent_starts_holds_when_all_look_at_once(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    names = ["a", "b", "c"]
    warden.write_config(*(instance(name, model) for name in names))
    text = warden.config.read_text().replace(
        "log_backend", "max_concurrent_starts = 1\nlog_backend", 1
    )
    warden.config.write_text(text)
    warden.start()
    for name in names:
        warden.until_state(name, "ready", seconds=40)

    story = sorted(
        (event for name in names for event in warden.events(name)), key=lambda e: e["number"]
    )
    starting = 0
    for event in story:
        if event["event"] == "attempt-launched":
            starting += 1
        elif event["event"] == "engine-ready":
            starting -= 1
        assert starting <= 1, event


def test_an_engine_that_listens_but_never_answers_stalls_and_says_what_the_probe_saw(
    warden: Warden, model: Path, instance: Callable[..., str], tmp_path: Path
) -> None:
    program = tmp_path / "mute" / "vllm"
    program.parent.mkdir()
    import sys

    program.write_text(NEVER_ANSWERS.format(python=sys.executable))
    program.chmod(0o755)
    warden.write_config(instance("x", model, command=f'["{program}", "serve"]', stall_seconds=4.0))
    warden.start()

    warden.until_reason("x", "starting", "/health answers 500", seconds=15)
    warden.until(lambda: bool(warden.incidents("x")), 30, "it stalls")
    assert warden.incidents("x")[0]["diagnosis"]["failure"] == "engine_stalled"


def test_the_next_daemon_goes_on_with_an_open_incident(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("x", model))
    warden.start()
    status = warden.until_state("x", "ready", seconds=20)
    os.kill(status["pids"]["parent"], signal.SIGKILL)
    warden.until(lambda: bool(warden.incidents("x")), 10, "an incident")
    warden.until_state("x", "ready", seconds=20)
    state = warden.status("x")
    os.kill(state["pids"]["parent"], signal.SIGKILL)
    warden.until(lambda: warden.incidents("x")[0]["failures"] == 2, 10, "a second failure")
    assert warden.process is not None
    warden.process.kill()
    warden.process.wait()

    warden.start()
    warden.until_state("x", "ready", seconds=30)

    warden.until(lambda: warden.incidents("x")[0]["recovered"] is not None, 10, "it recovers")
    (incident,) = warden.incidents("x")
    assert [one["attempt"] for one in incident["further"]] == [2]
    assert incident["resolved"] is None
    assert warden.command("stop", "x").returncode == 0
    (incident,) = warden.incidents("x")
    assert incident["resolved"] is not None
    attempts = warden.client.get("/v1/instances/x")["attempts"]
    assert sum(one["ended"] is None for one in attempts if one.get("outcome") is None) <= 1  # type: ignore[attr-defined]
