"""Samples the memory of all GPUs once a second, for status and for each attempt's timeline."""

from __future__ import annotations

import asyncio

from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

SAMPLE_SECONDS = 1.0
RETRY_SECONDS = 30.0


async def sample_gpus(shell: Shell) -> None:
    """For ever; without a usable NVML it asks again every half minute and says why."""
    while True:
        try:
            readings = await shell.lanes.nvml.call(lambda: tuple(shell.ports.gpus.memory()))
        except LateError as late:
            shell.gpu_view.problem = str(late)
        except Exception as error:  # noqa: BLE001 -- any trouble with the driver means unknown
            shell.gpu_view.readings, shell.gpu_view.problem = (), str(error)
        else:
            shell.gpu_view.readings = readings
            shell.gpu_view.problem = None
            _sample_attempts(shell)
        await asyncio.sleep(SAMPLE_SECONDS if shell.gpu_view.problem is None else RETRY_SECONDS)


def _sample_attempts(shell: Shell) -> None:
    now = shell.now()
    for name, live in shell.live.items():
        mine = set(shell.instance(name).gpu_indices)
        used = {
            gpu.index: gpu.total_bytes - gpu.free_bytes
            for gpu in shell.gpu_view.readings
            if gpu.index in mine and gpu.error is None
        }
        if used:
            for gpu in shell.gpu_view.readings:
                live.gpu_total_bytes[gpu.index] = gpu.total_bytes
            if live.take_sample(now, used):
                live.progress_seconds = now
