"""Makes the stand-in engine obey the hidden values, and notes where each attempt ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.held_back.needs import Needs, full_batch_tokens, kv_steps, needs
from benchmarks.held_back.rooms import Wall, available_bytes
from benchmarks.held_back.truth import Truth
from vllm_warden.simulation import physics
from vllm_warden.simulation.physics import Knobs, KvPlan, Memory, MemoryTaken, OutOfMemory, Shape


@dataclass(frozen=True, slots=True)
class HiddenLaws:
    """One rank of one launch. The diary is the bench's own: the daemon never reads it."""

    truth: Truth
    rank: int
    launch: int
    diary: Path

    def init_device(self, memory: Memory, knobs: Knobs) -> Memory:
        ready = replace(memory, outside_bytes=self._needs(knobs).outside)
        wanted = physics.requested_bytes(memory, knobs)
        if ready.free_bytes < wanted:
            self._note(Wall.INIT, memory)
            raise MemoryTaken(ready, wanted)
        return ready

    def load(self, memory: Memory, shape: Shape, knobs: Knobs) -> Iterator[Memory]:
        whole, layers = self._needs(knobs).weights, physics.rank_layers(shape, knobs)
        for layer in range(layers):
            size = whole * (layer + 1) // layers - whole * layer // layers
            with self._watch(Wall.LOAD):
                memory = memory.allocate(size, "weights")
            yield memory

    def profile(self, memory: Memory, _shape: Shape, knobs: Knobs) -> int:
        need = self._needs(knobs)
        grown = replace(memory, outside_bytes=memory.outside_bytes + need.growth)
        with self._watch(Wall.FORWARD):
            self._take(grown, need.forward, "activations")
        with self._watch(Wall.SAMPLER):
            self._take(grown, need.sampler, "sampler")
        return need.peak

    def available_kv_bytes(self, _memory: Memory, knobs: Knobs, _peak_bytes: int) -> int:
        return available_bytes(self.truth, knobs, self._needs(knobs))

    def graph_estimate_bytes(self, _shape: Shape, knobs: Knobs) -> int:
        return self._needs(knobs).estimate

    def allocate_kv(self, memory: Memory, plan: KvPlan, _shape: Shape, _knobs: Knobs) -> Memory:
        with self._watch(Wall.KV_ALLOC):
            return self._take(memory, kv_steps(self.truth, plan.bytes_per_rank), "kv_cache", 0)

    def warm_up_kernels(self, memory: Memory) -> Memory:
        left = self._workspace()
        if memory.free_bytes < left:
            self._note(Wall.KERNELS, memory)
            raise OutOfMemory(physics.round_segment(left), memory, "kernels")
        return replace(memory, unallocated_bytes=memory.unallocated_bytes + left)

    def capture_graphs(self, memory: Memory, _shape: Shape, knobs: Knobs) -> Iterator[Memory]:
        for size in self._needs(knobs).graphs:
            with self._watch(Wall.CAPTURE):
                grown = memory.allocate(size, "cuda_graphs")
            memory = replace(grown, private_bytes=memory.private_bytes + size)
            yield memory

    def logits_bytes(self, _shape: Shape, knobs: Knobs) -> int:
        return self._needs(knobs).sampler[0]

    def run_sampler(self, memory: Memory, _shape: Shape, knobs: Knobs) -> Memory:
        with self._watch(Wall.WARMUP):
            return self._take(memory, self._needs(knobs).sampler, "sampler")

    def run_batch(self, memory: Memory, _shape: Shape, knobs: Knobs, tokens: int) -> None:
        if tokens < full_batch_tokens(knobs):
            return
        need = self._needs(knobs)
        with self._watch(Wall.FULL_BATCH):
            self._take(memory, need.full_batch, "serving")
            self._take(memory, need.sampler, "serving")

    def _needs(self, knobs: Knobs) -> Needs:
        return needs(self.truth, knobs, self.rank, self.launch)

    def _workspace(self) -> int:
        knobs = Knobs(max_model_len=1, enforce_eager=True)
        return self._needs(knobs).workspace

    def _take(
        self, memory: Memory, sizes: Sequence[int], site: str, waste: float | None = None
    ) -> Memory:
        for size in sizes:
            memory = memory.allocate(size, site, self.truth.waste if waste is None else waste)
        return memory

    @contextmanager
    def _watch(self, wall: Wall) -> Iterator[None]:
        try:
            yield
        except OutOfMemory as error:
            self._note(wall, error.memory)
            raise

    def _note(self, wall: Wall, memory: Memory) -> None:
        write_note(
            self.diary,
            launch=self.launch,
            rank=self.rank,
            wall=wall.value,
            others=memory.others_bytes,
        )


def write_note(diary: Path, **values: object) -> None:
    """One line, in one write: ranks note at the same time."""
    descriptor = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (json.dumps(values) + "\n").encode())
    finally:
        os.close(descriptor)
