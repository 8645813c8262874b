"""Tells systemd that the loop lives: WATCHDOG=1 only after it handled an event."""

from __future__ import annotations

import asyncio
import os

from vllm_warden.core.lifecycle.states import State
from vllm_warden.daemon.shell import Shell

STATUS_SECONDS = 1.0


async def pet_watchdog(shell: Shell) -> None:
    """For ever. Posts nothing itself: a queue that is not drained is the sign of a hung loop."""
    interval = watchdog_interval_seconds()
    if interval is None and "NOTIFY_SOCKET" not in os.environ:
        return
    last_text = ""
    while True:
        if shell.loop.is_drained():
            shell.ports.notifier.watchdog()
        text = status_text(shell)
        if text != last_text:
            last_text = text
            shell.ports.notifier.status(text)
        await asyncio.sleep(min(STATUS_SECONDS, interval or STATUS_SECONDS))


def watchdog_interval_seconds() -> float | None:
    """Half of $WATCHDOG_USEC, None when systemd wants no watchdog (sd_watchdog_enabled(3))."""
    text = os.environ.get("WATCHDOG_USEC", "")
    if not text.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(text) / 2_000_000


def status_text(shell: Shell) -> str:
    """One line for ``systemctl status``: how many are ready, and what the others do."""
    instances = shell.loop.instances
    ready = sum(one.state is State.READY for one in instances.values())
    others = [
        f"{name} {one.state}" for name, one in instances.items() if one.state is not State.READY
    ]
    text = f"{ready} of {len(instances)} ready"
    return f"{text}; {', '.join(others)}" if others else text
