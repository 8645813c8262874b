"""Waits until the GPUs have given back what an ended attempt held."""

from __future__ import annotations

import asyncio

from vllm_warden.core.model import GpuReading
from vllm_warden.core.plan.gate import kept_text
from vllm_warden.core.plan.returning import Returning, follow
from vllm_warden.daemon.look import read_gpus
from vllm_warden.daemon.shell import Shell

LOOK_SECONDS = 0.25
STILL_SECONDS = 5.0
"""Memory that comes back does so all the time: nothing for so long means that it stays."""


async def memory_back(shell: Shell, name: str) -> str:
    """What the driver still keeps once nothing comes back any more; empty when nothing is kept.

    For a stop only: a relaunch has the gate, which waits longer and says more. A start that is
    asked for meanwhile ends the wait, and so do GPUs that cannot be read.
    """
    seen: Returning | None = None
    while True:
        mine = set(shell.instance(name).gpu_indices)
        readings, problem = await read_gpus(shell) if mine else ((), None)
        gpus = [gpu for gpu in readings if gpu.index in mine and gpu.error is None]
        kept = _kept(gpus)
        if not kept or problem is not None or shell.instance(name).wanted:
            return ""
        seen = follow(seen, gpus, shell.now())
        if seen.still_seconds > STILL_SECONDS:
            return kept
        await asyncio.sleep(LOOK_SECONDS)


def _kept(gpus: list[GpuReading]) -> str:
    return "; ".join(text for gpu in gpus if (text := kept_text(gpu)))
