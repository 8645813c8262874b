"""Turns ArmTimer into TimerElapsed with the same number, later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from vllm_warden.core.lifecycle.events import Event, TimerElapsed
from vllm_warden.daemon.ports import Clock


class Timers:
    """One pending timer per instance: arming again replaces the earlier one."""

    def __init__(self, post: Callable[[str, Event], None], clock: Clock) -> None:
        self._post = post
        self._clock = clock
        self._pending: dict[str, asyncio.TimerHandle] = {}

    def arm(self, instance: str, number: int, after_seconds: float) -> None:
        self.cancel(instance)
        self._pending[instance] = asyncio.get_running_loop().call_later(
            after_seconds, self._fire, instance, number
        )

    def cancel(self, instance: str) -> None:
        earlier = self._pending.pop(instance, None)
        if earlier is not None:
            earlier.cancel()

    def _fire(self, instance: str, number: int) -> None:
        self._pending.pop(instance, None)
        self._post(instance, TimerElapsed(self._clock.now_seconds(), number))
