"""The load probe asks all at once, stops for real requests, and says what was not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes.health import FakeHealth
from vllm_warden.core.lifecycle.effects import ProbeLoad
from vllm_warden.core.lifecycle.events import LoadProbed
from vllm_warden.core.plan.spec import InstanceSpec
from vllm_warden.daemon import load_probe
from vllm_warden.daemon.load_probe import probe_load, prompts

SPEC = InstanceSpec("x", "/m", (), port=8000)
EFFECT = ProbeLoad(3, 16, 32, 1000)
Change = Callable[[FakeHealth, Any], None]


def probed(change: Change, attempt: int = 3) -> tuple[FakeHealth, list[LoadProbed]]:
    health, posted = FakeHealth(), []
    live = SimpleNamespace(number=attempt, exited=False, spec=SPEC)
    health.status[8000] = 200
    change(health, live)
    shell: Any = SimpleNamespace(
        live={"x": live},
        ports=SimpleNamespace(health=health),
        now=lambda: 9.0,
        post=lambda _, event: posted.append(event),
    )

    async def scene() -> None:
        health.answering = None if health.answering is None else asyncio.Event()
        await asyncio.wait_for(probe_load(shell, "x", EFFECT), 10)

    asyncio.run(scene())
    return health, posted


def test_all_are_asked_and_all_answered() -> None:
    health, posted = probed(lambda *_: None)

    assert posted == [LoadProbed(9.0, 3, 16)]
    assert len({tuple(one) for one in health.prompts}) == 16


def test_nothing_is_sent_while_the_engine_has_requests_or_does_not_say() -> None:
    for running in (1, None):

        def busy(health: FakeHealth, _: Any, running: int | None = running) -> None:
            health.running = [running]

        health, posted = probed(busy)
        assert health.prompts == []
        assert [(one.sent, one.busy) for one in posted] == [(0, True)]


def test_it_is_broken_off_at_once_for_somebody_elses_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load_probe, "LOOK_SECONDS", 0.01)

    def never_answers(health: FakeHealth, _: Any) -> None:
        health.answering = asyncio.Event()
        health.running = [0, 16, 17, 16, 17]

    _, posted = probed(never_answers)
    assert [(one.sent, one.busy) for one in posted] == [(16, True)]


def test_what_was_not_answered_is_said() -> None:
    def refuses(health: FakeHealth, _: Any) -> None:
        health.token_problem[8000] = "HTTP 400: too long"

    _, posted = probed(refuses)
    assert posted[0].problem == "16 of 16 requests were not answered: HTTP 400: too long"
    assert not posted[0].busy


def test_of_an_attempt_that_is_gone_nothing_is_said() -> None:
    def gone(_: FakeHealth, live: Any) -> None:
        live.exited = True

    assert probed(gone)[1] == []
    assert probed(lambda *_: None, attempt=4)[1] == []


@pytest.mark.parametrize("vocabulary", [5, 11, 300, 200_000])
@pytest.mark.parametrize("tokens", [1, 2, 40])
def test_prompts_are_of_the_size_and_within_the_vocabulary(vocabulary: int, tokens: int) -> None:
    made = prompts(256, tokens, vocabulary)

    assert {len(one) for one in made} == {tokens}
    assert all(0 <= token < vocabulary for one in made for token in one)


def test_no_prompt_begins_as_another_one() -> None:
    assert len({one[0] for one in prompts(256, 8, 32_000)}) == 256
