"""Reaps orphans of engines where they become our children: as PID 1, or without cgroups."""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial

from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

REAP_SECONDS = 1.0


def must_reap(shell: Shell) -> bool:
    """PID 1 of a container gets all orphans; without cgroups we ask for those of our engines."""
    return os.getpid() == 1 or shell.ports.groups.kind != "cgroup"


async def reap_orphans(shell: Shell) -> None:
    """For ever. The engines' parents are left alone: their exit status is read elsewhere."""
    while True:
        spare = [live.child.identity.pid for live in shell.live.values() if live.child is not None]
        with contextlib.suppress(LateError):
            await shell.lanes.processes.call(partial(shell.ports.reap_orphans, spare))
        await asyncio.sleep(REAP_SECONDS)
