"""Taking over an engine is tried again until it is watched."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_warden.daemon.adopt import _start_reading
from vllm_warden.daemon.shell import Lanes


def test_a_log_that_cannot_be_followed_yet_is_closed_before_the_next_try() -> None:
    closed: list[bool] = []

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    stream = SimpleNamespace(start_reading=refuse, close=lambda: closed.append(True))
    live: Any = SimpleNamespace(stream=stream)
    shell: Any = SimpleNamespace(lanes=Lanes())

    with pytest.raises(RuntimeError, match="new thread"):
        asyncio.run(_start_reading(shell, live))
    assert closed == [True]
