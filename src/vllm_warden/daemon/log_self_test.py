"""Tries whether logs of engines can be written and read back, again while they cannot."""

from __future__ import annotations

import asyncio

from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

AGAIN_SECONDS = 30.0
KEY = "log-backend"


def check_log(shell: Shell) -> None:
    """Blocks for the first try, so that nothing is launched before it; the others do not."""
    problem = shell.ports.log_backend.self_test()
    shell.recorder.set_condition(KEY, problem)
    if problem is not None:
        shell.start(_again(shell))


async def _again(shell: Shell) -> None:
    """A disk that was full when the daemon started has room again some day."""
    backend = shell.ports.log_backend
    problem: str | None = ""
    while problem is not None:
        await asyncio.sleep(AGAIN_SECONDS)
        try:
            problem = await shell.lanes.old_logs.call(backend.self_test)
        except LateError as late:
            problem = str(late)
        shell.recorder.set_condition(KEY, problem)
