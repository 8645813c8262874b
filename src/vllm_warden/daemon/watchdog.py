"""Tells systemd that the loop lives: WATCHDOG=1 only after it handled an event."""

from __future__ import annotations

import asyncio

from vllm_warden.adapters.systemd.notify import watchdog_seconds
from vllm_warden.core.lifecycle.states import State
from vllm_warden.daemon.shell import Shell

STATUS_SECONDS = 1.0


async def pet_watchdog(shell: Shell) -> None:
    """For ever. Posts nothing itself: a queue that is not drained is the sign of a hung loop."""
    if not shell.ports.notifier.is_active:
        return
    limit = watchdog_seconds()
    last_text = ""
    while True:
        if shell.loop.is_drained():
            shell.ports.notifier.watchdog()
        text = status_text(shell)
        if text != last_text:
            last_text = text
            shell.ports.notifier.status(text)
        await asyncio.sleep(min(STATUS_SECONDS, STATUS_SECONDS if limit is None else limit / 2))


def status_text(shell: Shell) -> str:
    """One line for ``systemctl status``: how many are ready, and what the others do."""
    instances = shell.loop.instances
    ready = sum(one.state is State.READY for one in instances.values())
    others = [
        f"{name} {one.state}" for name, one in instances.items() if one.state is not State.READY
    ]
    text = f"{ready} of {len(instances)} ready"
    return f"{text}; {', '.join(others)}" if others else text
