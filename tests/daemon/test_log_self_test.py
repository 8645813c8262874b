"""A log that cannot be written when the daemon starts is tried again, and told well when it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.daemon.test_launch import Scene
from vllm_warden.daemon import log_self_test
from vllm_warden.daemon.log_self_test import check_log
from vllm_warden.daemon.shell import Shell

FULL = "cannot write /x/log/.self-test: No space left on device"


def scene_with(state: Path) -> tuple[Scene, Shell, dict[str, str]]:
    scene = Scene(state)
    conditions: dict[str, str] = {}

    def set_condition(key: str, text: str | None) -> None:
        conditions.pop(key, None)
        if text is not None:
            conditions[key] = text

    recorder: Any = SimpleNamespace(set_condition=set_condition, conditions=conditions)
    scene.shell.recorder = recorder
    return scene, scene.shell, conditions


def test_it_is_told_as_long_as_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_self_test, "AGAIN_SECONDS", 0.01)

    async def scenario() -> None:
        scene, shell, conditions = scene_with(tmp_path)
        scene.log.problem = FULL
        try:
            check_log(shell)
            assert list(conditions.values()) == [FULL]
            await asyncio.sleep(0.1)
            assert list(conditions.values()) == [FULL]
            scene.log.problem = "cannot write it for another reason"
            await scene.until(lambda: list(conditions.values()) == [scene.log.problem])
            scene.log.problem = None
            await scene.until(lambda: conditions == {})
            await scene.until(lambda: not shell._tasks)
        finally:
            await shell.cancel_tasks()
            shell.lanes.close()

    asyncio.run(scenario())


def test_one_that_works_is_not_looked_at_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        _, shell, conditions = scene_with(tmp_path)
        check_log(shell)
        assert conditions == {}
        assert not shell._tasks
        shell.lanes.close()

    asyncio.run(scenario())
