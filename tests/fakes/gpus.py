"""GPUs whose memory a test fills and frees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vllm_warden.core.model import GpuHolder, GpuReading


class FakeGpus:
    """Satisfies ``daemon.ports.Gpus``. ``reserved_bytes`` is what the driver keeps for itself."""

    def __init__(
        self, count: int = 1, total_bytes: int = 80 << 30, reserved_bytes: int = 512 << 20
    ) -> None:
        self.total_bytes = total_bytes
        self.reserved_bytes = reserved_bytes
        self.unavailable: Exception | None = None
        self.errors: dict[int, str] = {}
        self.used: list[dict[int, int]] = [{} for _ in range(count)]
        """Per GPU: pid -> bytes."""
        self.ownerless = 0
        """Bytes of the first GPU that no process holds."""
        self.reads = 0

    def memory(self) -> Sequence[GpuReading]:
        return [replace(reading, holders=()) for reading in self.memory_with_holders()]

    def memory_with_holders(self) -> Sequence[GpuReading]:
        self.reads += 1
        if self.unavailable is not None:
            raise self.unavailable
        return [self._reading(index) for index in range(len(self.used))]

    def _reading(self, index: int) -> GpuReading:
        uuid, name = f"GPU-fa4e0000-0000-4000-8000-{index:012d}", "NVIDIA H100 80GB HBM3"
        if index in self.errors:
            return GpuReading(index, uuid, name, 0, 0, error=self.errors[index])
        used = self.used[index]
        holders = tuple(GpuHolder(pid, held, "fake", "fake") for pid, held in sorted(used.items()))
        taken = self.reserved_bytes + sum(used.values()) + (0 if index else self.ownerless)
        free_bytes = max(0, self.total_bytes - taken)
        return GpuReading(index, uuid, name, self.total_bytes, free_bytes, holders)
