"""The chaos waits for a slow host, and not for one that stands still or goes round in a circle."""

from __future__ import annotations

import time
from typing import Any

from tests.chaos import rest
from tests.chaos.rest import wrong_at_rest


class Host:
    """Each look at it may move it on."""

    def __init__(self, *, phases: int = 0, attempts: int = 0) -> None:
        self.phases = phases
        self.attempts = attempts
        self.attempt = 1
        self.phase = 0

    def status(self) -> dict[str, dict[str, Any]]:
        self.phase = min(self.phase + 1, self.phases)
        self.attempt = min(self.attempt + 1, self.attempts)
        state = "ready" if self.phase == self.phases else "starting"
        return {
            "x": {"state": state, "attempt": self.attempt, "phase": self.phase, "reason": "because"}
        }

    def unsettled(self) -> list[str]:
        return [] if self.status()["x"]["state"] == "ready" else ["x is starting"]


def test_what_moves_is_waited_for_however_long_it_takes(monkeypatch: Any) -> None:
    monkeypatch.setattr(rest, "LOOK_SECONDS", 0.01)
    host = Host(phases=200)
    assert wrong_at_rest(host, (host.unsettled,), quiet=0.2) == []


def test_what_stands_still_is_named() -> None:
    began = time.monotonic()
    host = Host()
    found = wrong_at_rest(host, (host.unsettled, lambda: ["x is torn"]), quiet=0.2)
    assert found[0] == "x is torn"
    assert "without change" in found[1]
    assert time.monotonic() - began < 5


def test_what_goes_round_in_a_circle_is_named(monkeypatch: Any) -> None:
    monkeypatch.setattr(rest, "LOOK_SECONDS", 0.01)
    host = Host(attempts=10**6)
    found = wrong_at_rest(host, (lambda: ["x dies again and again"],), quiet=60)
    assert found[0] == "x dies again and again"
    assert "attempts to come to rest" in found[1]


def test_later_looks_are_taken_only_when_the_earlier_ones_find_nothing() -> None:
    host = Host(phases=5)
    taken: list[str] = []

    def last() -> list[str]:
        taken.append(host.status()["x"]["state"])
        return []

    assert wrong_at_rest(host, (host.unsettled, last), quiet=5) == []
    assert taken == ["ready"]
