"""Samples the memory of all GPUs once a second, for status and for each attempt's timeline."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from vllm_warden.core.model import GpuReading
from vllm_warden.daemon.shell import Shell


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between samples, and until something is done about what did not come.

    An NVML that does not answer is late, one that failed is asked again after ``retry_seconds``,
    and readings that have not changed are handed over after ``repeat_seconds``.
    """

    sample_seconds: float = 1.0
    late_seconds: float = 5.0
    retry_seconds: float = 30.0
    repeat_seconds: float = 10.0


@dataclass(slots=True)
class _Sampler:
    """Reads in a thread of its own, which may hang in a broken driver.

    The event loop is woken only when there is something new: at rest, waking it every second
    would cost more than the sample.
    """

    shell: Shell
    loop: asyncio.AbstractEventLoop
    pace: Pace
    stopping: threading.Event = field(default_factory=threading.Event)
    answered_at: float = field(default_factory=time.monotonic)
    problem: str | None = None
    handed_over: tuple[GpuReading, ...] | None = None
    handed_over_at: float = 0.0

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._sample(tuple(self.shell.ports.gpus.memory()), None)
            except Exception as error:  # noqa: BLE001 -- any trouble with the driver means unknown
                self._sample((), str(error))
            pace = self.pace
            self.stopping.wait(pace.retry_seconds if self.problem else pace.sample_seconds)

    def _sample(self, readings: tuple[GpuReading, ...], problem: str | None) -> None:
        now = time.monotonic()
        was_late = now - self.answered_at > self.pace.late_seconds
        self.answered_at = now
        same = readings == self.handed_over and problem == self.problem and not was_late
        starting = any(not live.ready for live in tuple(self.shell.live.values()))
        if same and not starting and now - self.handed_over_at < self.pace.repeat_seconds:
            return
        self.handed_over, self.handed_over_at, self.problem = readings, now, problem
        with contextlib.suppress(RuntimeError):  # the loop has ended before us
            self.loop.call_soon_threadsafe(_take, self.shell, readings, problem)


async def sample_gpus(shell: Shell, pace: Pace | None = None) -> None:
    """For ever; without a usable NVML it asks again every half minute and says why."""
    sampler = _Sampler(shell, asyncio.get_running_loop(), pace or Pace())
    threading.Thread(target=sampler.run, name="NVML samples", daemon=True).start()
    late = sampler.pace.late_seconds
    try:
        while True:
            await asyncio.sleep(late)
            patience = late + (sampler.pace.retry_seconds if sampler.problem else 0.0)
            if time.monotonic() - sampler.answered_at > patience:
                shell.gpu_view.problem = f"NVML did not answer within {late:g} s"
    finally:
        sampler.stopping.set()


def _take(shell: Shell, readings: Sequence[GpuReading], problem: str | None) -> None:
    shell.gpu_view.readings, shell.gpu_view.problem = tuple(readings), problem
    if problem is None:
        _sample_attempts(shell)


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
            # Only its own: decisions take the smallest, and a host may have GPUs of several sizes.
            for gpu in shell.gpu_view.readings:
                if gpu.index in used:
                    live.gpu_total_bytes[gpu.index] = gpu.total_bytes
                    live.gpu_cuda_total_bytes[gpu.index] = gpu.cuda_total_bytes
            if live.take_sample(now, used):
                live.progress_seconds = now
