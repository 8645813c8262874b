"""Says what the stand-in engine asks of physics: a bench can put other hidden values there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from vllm_warden.simulation import physics
from vllm_warden.simulation.physics import Knobs, KvPlan, Memory, Shape


class Laws(Protocol):
    """What one rank's memory obeys; each stage raises OutOfMemory as ``physics`` does."""

    def init_device(self, memory: Memory, knobs: Knobs) -> Memory: ...

    def load(self, memory: Memory, shape: Shape, knobs: Knobs) -> Iterator[Memory]: ...

    def profile(self, memory: Memory, shape: Shape, knobs: Knobs) -> int: ...

    def available_kv_bytes(self, memory: Memory, knobs: Knobs, peak_bytes: int) -> int: ...

    def graph_estimate_bytes(self, shape: Shape, knobs: Knobs) -> int: ...

    def allocate_kv(self, memory: Memory, plan: KvPlan, shape: Shape, knobs: Knobs) -> Memory: ...

    def warm_up_kernels(self, memory: Memory) -> Memory: ...

    def capture_graphs(self, memory: Memory, shape: Shape, knobs: Knobs) -> Iterator[Memory]: ...

    def logits_bytes(self, shape: Shape, knobs: Knobs) -> int: ...

    def run_sampler(self, memory: Memory, shape: Shape, knobs: Knobs) -> Memory: ...

    def run_batch(self, memory: Memory, shape: Shape, knobs: Knobs, tokens: int) -> None: ...


LawsOf = Callable[[int], Laws]
"""The laws of a rank, by its number."""


def ordinary(_rank: int) -> Laws:
    """Those of ``physics``, the same for all ranks."""
    return physics
