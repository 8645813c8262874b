"""Follows memory that comes back while the gate is closed: how fast, and since when no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vllm_warden.core.model import GpuReading

STEP_BYTES = 64 << 20
"""Less is noise of the driver's own."""
FRESH_SECONDS = 30.0
"""So long after the last rise memory still counts as coming back."""


@dataclass(frozen=True, slots=True)
class Returning:
    """Free bytes by GPU: ``first`` at ``since_seconds``, ``most`` at ``rose_seconds`` at last.

    ``at_seconds`` is the newest look (CLOCK_BOOTTIME, as the others).
    """

    since_seconds: float
    rose_seconds: float
    at_seconds: float
    first: Mapping[int, int]
    most: Mapping[int, int]

    @property
    def is_rising(self) -> bool:
        """Memory came back at the newest look: what is free now is not all that will be."""
        return self.rose_seconds == self.at_seconds > self.since_seconds

    @property
    def still_seconds(self) -> float:
        """For how long nothing has come back."""
        return self.at_seconds - self.rose_seconds

    def seconds_left(self, gpu: int, missing_bytes: int) -> float | None:
        """When the missing bytes will be there at the mean rate so far; None: nothing comes."""
        came = self.most.get(gpu, 0) - self.first.get(gpu, 0)
        took = self.rose_seconds - self.since_seconds
        if came < STEP_BYTES or took <= 0 or self.still_seconds > FRESH_SECONDS:
            return None
        return missing_bytes * took / came


def follow(before: Returning | None, gpus: Sequence[GpuReading], at_seconds: float) -> Returning:
    """Take one more look; a GPU that cannot be read keeps what was known of it."""
    free = {gpu.index: gpu.free_bytes for gpu in gpus if gpu.error is None}
    if before is None:
        return Returning(at_seconds, at_seconds, at_seconds, free, free)
    rose = any(bytes_ >= before.most.get(gpu, 0) + STEP_BYTES for gpu, bytes_ in free.items())
    most = {gpu: max(bytes_, before.most.get(gpu, 0)) for gpu, bytes_ in free.items()}
    return Returning(
        before.since_seconds,
        at_seconds if rose else before.rose_seconds,
        at_seconds,
        {**free, **before.first},
        {**before.most, **most} if rose else before.most,
    )
