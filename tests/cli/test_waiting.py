from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService
from vllm_warden.api.service import Accepted, ChangeRequest, Document, Refused
from vllm_warden.cli import wait
from vllm_warden.cli.wait import Goal, judge

NAME = "minimax-m25"


class Story(FakeService):
    """A daemon that plays a list of (event text, changes of the instance) after a change."""

    script: tuple[tuple[str, Document], ...] = ()

    async def change(self, request: ChangeRequest) -> Accepted | Refused:
        answer = await super().change(request)
        self.playing = asyncio.ensure_future(self.play())
        return answer

    async def play(self):
        for text, changes in self.script:
            await asyncio.sleep(0.02)
            self.document["instances"] = [{**documents.first_instance(self.document), **changes}]
            self.publish(NAME, "x", text)


def story(before, *script: tuple[str, Document]):
    def made() -> Story:
        service = Story(documents.status(documents.instance(**before)))
        service.script = script
        return service

    return made


def test_start_shows_progress_and_ends_when_ready(start_server, warden):
    server = start_server(
        story(
            {"state": "stopped", "wanted": "stopped", "attempt": 1},
            ("attempt 2 launched", {"state": "starting", "wanted": "running", "attempt": 2}),
            ("ready after 40 s", {"state": "ready"}),
        )
    )
    code, out, err = warden("start", NAME, "--socket", server.path)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{NAME}: attempt 2 launched",
        f"{NAME}: ready after 40 s",
        f"{NAME} is ready",
    ]


def test_start_ends_with_exit_1_and_the_reason_when_held(start_server, warden):
    server = start_server(
        story(
            {"state": "stopped", "wanted": "stopped"},
            ("attempt launched", {"state": "starting", "wanted": "running"}),
            ("held", {"state": "held", "reason": "the weights do not fit", "since": 5.0}),
        )
    )
    code, out, _ = warden("start", NAME, "--socket", server.path)
    assert code == 1
    assert "is held: the weights do not fit" in out
    assert f"vllm-warden why {NAME}" in out


def test_resume_is_not_fooled_by_the_hold_that_it_ends(start_server, warden):
    server = start_server(
        story(
            {"state": "held"},
            ("gate asked", {"state": "held"}),
            ("launched", {"state": "starting", "since": 2.0}),
            ("ready", {"state": "ready", "since": 3.0}),
        )
    )
    assert warden("resume", NAME, "--socket", server.path)[0] == 0


def test_restart_waits_for_a_new_attempt_and_not_for_the_old_ready(start_server, warden):
    server = start_server(
        story(
            {"state": "ready", "attempt": 4},
            ("still the old one", {}),
            ("stopping", {"state": "stopping"}),
            ("launched", {"state": "starting", "attempt": 5}),
            ("ready", {"state": "ready"}),
        )
    )
    code, out, _ = warden("restart", NAME, "--socket", server.path, "--json")
    answer = json.loads(out)
    assert (code, answer["outcome"], answer["instance"]["attempt"]) == (0, "reached", 5)


TRIAL = {"kind": "set", "by": "uid 0"}
BACK: Document = {
    "state": "ready",
    "attempt": 6,
    "trial": None,
    "settings": [{"name": "max_num_seqs", "asked": 1024, "in_force": 256, "why": "learned"}],
    "decision": {"reason": "the given settings did not last (no memory)"},
}


@pytest.mark.parametrize("words", [("--set", "max_num_seqs=512"), ("--retry-capacity",)])
def test_a_trial_that_did_not_last_is_said_and_exit_1(start_server, warden, words):
    server = start_server(
        story(
            {"state": "ready", "attempt": 4, "degraded": True},
            ("launched", {"state": "starting", "attempt": 5, "trial": TRIAL}),
            ("died", {"state": "diagnosing"}),
            ("launched", {"state": "starting", "attempt": 6, "trial": None}),
            ("ready", BACK),
        )
    )
    code, out, _ = warden("restart", NAME, *words, "--socket", server.path)
    assert code == 1
    assert f"{NAME} is ready, but not with what was to be tried: the given settings did" in out
    assert f"vllm-warden why {NAME}" in out


def test_a_trial_that_did_not_last_has_an_outcome_of_its_own(start_server, warden):
    server = start_server(story({"state": "held", "degraded": True, "attempt": 4}, ("x", BACK)))
    code, out, _ = warden("start", NAME, "--retry-capacity", "--json", "--socket", server.path)
    assert (code, json.loads(out)["outcome"]) == (1, "went-back")


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ({"trial": TRIAL}, ("--set", "max_num_seqs=512")),
        ({"trial": None}, ("--set", "max_num_seqs=256")),
        ({"trial": None, "degraded": False}, ("--retry-capacity",)),
    ],
)
def test_a_trial_that_lasts_or_what_came_to_the_same_is_reached(start_server, warden, now, words):
    before: Document = {"state": "ready", "attempt": 4, "degraded": True}
    server = start_server(story(before, ("ready", {**BACK, **now})))
    code, out, _ = warden("restart", NAME, *words, "--socket", server.path)
    assert code == 0, out


@pytest.mark.parametrize(
    ("verb", "state", "says"),
    [("restart", "ready", True), ("start", "held", True), ("start", "ready", False),
     ("stop", "ready", False), ("resume", "held", False)],
)  # fmt: skip
def test_a_hold_that_ends_unasked_is_said(start_server, warden, verb, state, says):
    server = start_server(story({"state": state, "wanted": "held"}))
    words = (verb, NAME, "--no-wait", "--socket", server.path)
    assert (f"{verb} ends the hold" in warden(*words)[1]) is says


def test_restart_says_that_it_ends_a_hold_while_it_waits(start_server, warden):
    server = start_server(
        story({"wanted": "held", "attempt": 4}, ("ready", {"state": "ready", "attempt": 5}))
    )
    code, out, _ = warden("restart", NAME, "--socket", server.path)
    assert (code, out.splitlines()[0]) == (0, f"{NAME}: restart ends the hold")


def test_stop_now_passes_the_option_and_waits_until_stopped(start_server, warden):
    server = start_server(
        story({}, ("stopping", {"state": "stopping"}), ("gone", {"state": "stopped"}))
    )
    assert warden("stop", NAME, "--now", "--socket", server.path)[0] == 0
    assert server.service.changes[0].options == {"now": True}


def test_no_wait_returns_at_once_and_a_timeout_is_exit_1(start_server, warden):
    server = start_server(story({"state": "stopped"}))
    at = ("--socket", server.path)
    assert warden("start", NAME, "--no-wait", *at) == (0, f"{NAME}: start accepted\n", "")
    code, out, _ = warden("start", NAME, "--timeout", "0.1", *at)
    assert code == 1
    assert "is still stopped" in out


def test_a_daemon_that_restarts_while_we_wait_is_found_again(start_server, warden):
    first = start_server(story({"state": "stopped"}))

    def restart() -> None:
        while not first.service.streams_open:
            time.sleep(0.01)
        first.call(first.server.stop())
        time.sleep(0.5)  # long enough for the command to find nobody there
        start_server(story({"state": "ready", "attempt": 9}))

    other = threading.Thread(target=restart)
    other.start()
    code, out, _ = warden("start", NAME, "--socket", first.path)
    other.join()
    assert code == 0
    assert out.splitlines()[-1] == f"{NAME} is ready"


def test_ctrl_c_only_detaches(start_server):
    server = start_server(story({"state": "stopped"}, ("launched", {"state": "starting"})))
    program = "import sys; from vllm_warden.cli.main import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "start", NAME, "--socket", server.path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    while "launched" not in process.stdout.readline():
        pass
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "nothing is undone, start goes on" in err
    assert [change.verb for change in server.service.changes] == ["start"]


def test_a_daemon_that_stays_away_is_exit_3(start_server, warden, monkeypatch):
    monkeypatch.setattr(wait, "UNREACHABLE_SECONDS", 0.3)
    server = start_server(story({"state": "stopped"}))

    def stop() -> None:
        while not server.service.streams_open:
            time.sleep(0.01)
        server.call(server.server.stop())

    other = threading.Thread(target=stop)
    other.start()
    code, _, err = warden("start", NAME, "--socket", server.path)
    other.join()
    assert code == 3
    assert "cannot reach the daemon" in err


BEFORE: Document = {"state": "held", "wanted": "running", "attempt": 3, "since": 1.0}


@pytest.mark.parametrize(
    ("now", "goal", "waited_seconds", "outcome"),
    [
        ({"state": "ready"}, Goal("ready"), 0, "reached"),
        ({"state": "ready"}, Goal("ready", fresh=True), 60, None),
        ({"state": "ready", "attempt": 4}, Goal("ready", fresh=True), 0, "reached"),
        ({}, Goal("ready"), 1, None),
        ({}, Goal("ready"), 5, "failed"),
        ({"since": 1.01}, Goal("ready"), 0, None),
        ({"since": None}, Goal("ready"), 0, "failed"),
        ({"since": 2.0}, Goal("ready"), 0, "failed"),
        ({"state": "failed"}, Goal("ready"), 0, "failed"),
        ({"state": "stopped", "wanted": "stopped"}, Goal("ready"), 0, "failed"),
        ({"state": "stopped", "wanted": "running"}, Goal("ready"), 60, None),
        ({"state": "backoff"}, Goal("ready"), 60, None),
        ({"state": "stopped"}, Goal("stopped"), 0, "reached"),
        ({"state": "stopping"}, Goal("stopped"), 60, None),
        ({}, Goal("stopped"), 60, None),
    ],
)
def test_an_end_state_counts_once_it_is_not_the_old_one(now, goal, waited_seconds, outcome):
    assert judge(BEFORE, {**BEFORE, **now}, goal, waited_seconds) == outcome
