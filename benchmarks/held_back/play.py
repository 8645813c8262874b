"""Plays scenarios through a real daemon, and watches nothing but its status."""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.held_back.diary import Attempt, attempts
from benchmarks.held_back.needs import full_batch_tokens, knobs_of
from benchmarks.held_back.scenario import Moves, Scenario
from benchmarks.held_back.stage import Place, Stage

LIMIT_SECONDS = 120.0
POLL_SECONDS = 0.25
LEAVES_AFTER_SECONDS = 4.0
QUIET_SECONDS = 1.0
"""An engine that answered a full batch and is ready so much later has survived it."""


@dataclass(frozen=True, slots=True)
class Played:
    """How it ended: ``up`` survived full batches, ``stopped`` is held or failed, else neither."""

    scenario: Scenario
    up: bool
    stopped: bool
    state: str
    reason: str
    attempts: tuple[Attempt, ...]
    in_force: dict[str, Any]
    incidents: tuple[str, ...]
    seconds: float


@dataclass(slots=True)
class Watch:
    """One scenario as it goes on: what was sent to which attempt, and whether it is over."""

    place: Place
    began: float = field(default_factory=time.monotonic)
    sent_to: int = 0
    answered: int = 0
    answered_at: float = 0.0
    batches: int = 0
    moved: bool = False
    named_since: float = 0.0
    over: str = ""
    sending: threading.Thread | None = None

    def look(self, stage: Stage, status: dict[str, Any]) -> None:
        """Take one step by what the status says now."""
        state, now = status["state"], time.monotonic()
        self._neighbour(stage, status, now)
        if state in ("held", "failed"):
            self.over = "stopped"
        elif state == "ready":
            self._batch(status, now)
        elif now - self.began > LIMIT_SECONDS:
            self.over = "late"

    def _batch(self, status: dict[str, Any], now: float) -> None:
        attempt = int(status["attempt"])
        if self.sending is not None and self.sending.is_alive():
            return
        if self.answered == attempt and now - self.answered_at > QUIET_SECONDS:
            self.batches += 1
            if self.batches >= 2:
                self.over = "up"
                return
            self.answered = 0
        elif self.sent_to == attempt and self.answered != attempt and self.batches == 0:
            return  # this one died of it; the daemon will notice
        elif self.answered == attempt:
            return
        if self.sent_to != attempt:
            self.batches = 0
        self.sent_to = attempt
        in_force = {one["name"]: one["in_force"] for one in status["settings"]}
        self.sending = threading.Thread(target=self._send, args=(attempt, in_force), daemon=True)
        self.sending.start()

    def _send(self, attempt: int, in_force: dict[str, Any]) -> None:
        """A prompt as long as a whole step; whether the engine survives it is physics."""
        scenario = self.place.scenario
        known = {name: value for name, value in in_force.items() if value is not None}
        knobs = knobs_of(scenario.truth, {**scenario.asked, **known})
        body = json.dumps({"prompt": "word" * full_batch_tokens(knobs), "max_tokens": 4}).encode()
        url = f"http://127.0.0.1:{self.place.port}/v1/completions"
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with contextlib.suppress(OSError), opener.open(request, timeout=60) as answer:
            answer.read()
            self.answered_at = time.monotonic()
            self.answered = attempt

    def _neighbour(self, stage: Stage, status: dict[str, Any], now: float) -> None:
        neighbour = self.place.scenario.neighbour
        if neighbour is None or self.moved:
            return
        pid = stage.neighbours[self.place.name].pid
        if neighbour.moves is Moves.GROWS:
            if status["state"] == "ready":
                self.place.first_gpu.hold(pid, neighbour.later)
                self.moved = True
            return
        if status["state"] != "waiting" or str(pid) not in status["reason"]:
            self.named_since = 0.0
            return
        self.named_since = self.named_since or now
        if neighbour.moves is Moves.LEAVES and now - self.named_since > LEAVES_AFTER_SECONDS:
            stage.leave(self.place.name)
            self.moved = True


def play(scenarios: Sequence[Scenario], tell: Callable[[Played], None]) -> list[Played]:
    """All of them side by side under one daemon; ``tell`` hears of each as it ends."""
    with tempfile.TemporaryDirectory(prefix="hb-") as folder:
        stage = Stage(Path(folder))
        try:
            stage.start(scenarios)
            return _watch(stage, tell)
        finally:
            stage.clear()


def _watch(stage: Stage, tell: Callable[[Played], None]) -> list[Played]:
    watches = [Watch(place) for place in stage.places]
    found: dict[str, Played] = {}
    while len(found) < len(watches):
        time.sleep(POLL_SECONDS)
        status = stage.status()
        for watch in watches:
            name = watch.place.name
            if name in found:
                continue
            watch.look(stage, status[name])
            if watch.over:
                found[name] = _played(stage, watch)
                tell(found[name])
    return list(found.values())


def _played(stage: Stage, watch: Watch) -> Played:
    """The end as a person sees it who types ``vllm-warden status --json``."""
    name = watch.place.name
    status = stage.status_as_typed()[name]
    return Played(
        scenario=watch.place.scenario,
        up=watch.over == "up" and status["state"] == "ready",
        stopped=watch.over == "stopped",
        state=status["state"],
        reason=status["reason"],
        attempts=tuple(attempts(watch.place.diary)),
        in_force={one["name"]: one["in_force"] for one in status["settings"]},
        incidents=tuple(json.dumps(one) for one in stage.incidents(name)),
        seconds=time.monotonic() - watch.began,
    )
