"""Follows the requests of an engine that is being stopped."""

from __future__ import annotations

import asyncio

from vllm_warden.core.lifecycle.events import RequestsLeft
from vllm_warden.daemon.shell import Shell

LOOK_SECONDS = 1.0


async def follow_requests(shell: Shell, name: str, attempt: int) -> None:
    """Tell how many requests are left, whenever that changes, until the attempt is over."""
    begun = shell.launching.get(name)
    if begun is not None:  # it is being taken over just now
        await asyncio.wait((begun,))
    live = shell.live.get(name)
    told: int | None = None
    while live is not None and live.number == attempt and not live.exited:
        counts = await shell.ports.health.metrics(live.spec.host, live.spec.port)
        running = None if counts is None else counts.requests_running
        waiting = None if counts is None else counts.requests_waiting
        if running is not None and waiting is not None and running + waiting != told:
            told = running + waiting
            shell.post(name, RequestsLeft(shell.now(), attempt, told))
        await asyncio.sleep(LOOK_SECONDS)
        live = shell.live.get(name)
