"""A new engine version is held against the catalogue once, and what it lost is said."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from vllm_warden.core.diagnose.reliance import names_relied_on
from vllm_warden.daemon.check_catalogue import check_catalogue_once
from vllm_warden.daemon.shell import Lanes


def conditions_after(absent: frozenset[str] | None, *versions: str | None) -> tuple[Any, int]:
    conditions: dict[str, str | None] = {}
    asked = []

    def look(command: Any, texts: Any, functions: Any) -> frozenset[str] | None:
        asked.append((command, texts, functions))
        return absent

    async def scenario() -> None:
        tasks: list[asyncio.Task[None]] = []
        shell: Any = SimpleNamespace(
            lanes=Lanes(),
            ports=SimpleNamespace(absent_from_source=look),
            checked_versions=set(),
            start=lambda work: tasks.append(asyncio.ensure_future(work)),
            recorder=SimpleNamespace(set_condition=conditions.__setitem__),
        )
        for version in versions:
            check_catalogue_once(shell, ("vllm", "serve"), version)
        await asyncio.gather(*tasks)

    asyncio.run(scenario())
    return conditions, len(asked)


def test_rows_that_a_version_left_nothing_of_are_a_condition() -> None:
    texts, functions = names_relied_on()
    conditions, asked = conditions_after(frozenset(texts + functions), "0.32.0", "0.32.0")

    assert asked == 1
    assert "vLLM 0.32.0 lacks texts" in conditions["catalogue-0.32.0"]
    assert "doctor" in conditions["catalogue-0.32.0"]


def test_a_version_that_has_everything_raises_none() -> None:
    assert conditions_after(frozenset(), "0.32.0", "0.31.0") == ({}, 2)


def test_an_installation_that_cannot_be_looked_into_raises_none() -> None:
    assert conditions_after(None, "0.32.0", None) == ({}, 1)
