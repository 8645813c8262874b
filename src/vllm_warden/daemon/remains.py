"""Names what was killed and is still there, until it has ended."""

from __future__ import annotations

import asyncio

from vllm_warden.core.plan.gate import remains_text
from vllm_warden.daemon.ports import AttemptGroup
from vllm_warden.daemon.shell import Shell

LOOK_SECONDS = 5.0


def remaining_text(shell: Shell, group: AttemptGroup) -> str:
    """Empty where nothing is left of the group."""
    remains = tuple(shell.ports.watch.remaining(group.pids()))
    return f"killed, but still there: {remains_text(remains)}" if remains else ""


async def follow_remains(shell: Shell, group: AttemptGroup) -> None:
    """A condition as long as the group holds processes; removes the group then.

    Nothing waits for it, and nothing is launched beside it: the gate sees it too.
    """
    condition = f"remains-{group.path}"
    try:
        while not group.is_empty():
            text = f"{group.instance}: {remaining_text(shell, group)}"
            shell.recorder.set_condition(condition, text)
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        shell.recorder.set_condition(condition, None)
    group.remove()
