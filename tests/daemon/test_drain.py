"""The requests of a stopping engine are counted until it has ended."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.health import FakeHealth
from vllm_warden.core.lifecycle.events import RequestsLeft
from vllm_warden.core.plan.spec import InstanceSpec
from vllm_warden.daemon import drain

SPEC = InstanceSpec("x", "/m", (), port=8000)


def followed(monkeypatch: pytest.MonkeyPatch, *running: int | None) -> list[int]:
    """What is told of an engine with so many running requests, one look each, that then exits."""
    health, posted = FakeHealth(), []
    health.status[8000] = 200
    health.running = [*running]
    live = SimpleNamespace(number=3, exited=False, spec=SPEC)
    looks = 0

    async def slept(_: float) -> None:
        nonlocal looks
        looks += 1
        live.exited = looks == len(running)

    monkeypatch.setattr("vllm_warden.daemon.drain.asyncio.sleep", slept)
    shell: Any = SimpleNamespace(
        live={"x": live},
        launching={},
        ports=SimpleNamespace(health=health),
        now=lambda: 9.0,
        post=lambda _, event: posted.append(event),
    )
    asyncio.run(drain.follow_requests(shell, "x", 3))
    assert all(isinstance(one, RequestsLeft) and one.attempt == 3 for one in posted)
    return [one.left for one in posted]


def test_each_change_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert followed(monkeypatch, 3, 3, 1, 0, 0) == [3, 1, 0]


def test_what_the_engine_does_not_say_is_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    assert followed(monkeypatch, None, 2, None) == [2]
