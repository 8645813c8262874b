"""Runs one rank through the stages of a start: it computes, holds memory, and logs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from vllm_warden.simulation import frames, physics, texts
from vllm_warden.simulation.era import Era, current
from vllm_warden.simulation.laws import Laws
from vllm_warden.simulation.log import Log
from vllm_warden.simulation.physics import Memory, MemoryTaken, OutOfMemory
from vllm_warden.simulation.plan import Plan
from vllm_warden.simulation.stacks import stacks

SHARD_BYTES = 1_840_000_000
LOAD_BYTES_PER_SECOND = 1_280_000_000
"""Simulated seconds: 230 GB take 180 s from local disks, 6 s at the demo's speed."""


class RankFailed(Exception):  # noqa: N818 - reads as the sentence it is
    """A stage ended with an exception in the worker's code; ``text`` is what str() of it says."""

    def __init__(
        self,
        rows: tuple[str, ...],
        kind: str,
        text: str,
        cause: tuple[tuple[str, ...], str] | None = None,
    ) -> None:
        super().__init__(text)
        self.rows = rows
        self.error = f"{kind}: {text}" if text else kind
        self.text = text
        self.cause = cause

    def traceback(self, outer: tuple[str, ...]) -> list[str]:
        """Lines with the executor's frames outside."""
        above = () if self.cause is None else frames.caused_by(*self.cause)
        return frames.traceback((*outer, *self.rows), self.error, above=above)


@dataclass(slots=True)
class Rank:
    """One GPU's worth of the engine; without GPUs nothing is computed and nothing is held."""

    plan: Plan
    number: int
    log: Log
    memory: Memory = field(default_factory=lambda: Memory(0))
    load_seconds: float = 0
    era: Era = field(default_factory=current)
    laws: Laws = field(init=False)

    def __post_init__(self) -> None:
        self.laws = self.plan.laws(self.number)

    def run(self, stage: str, argument: int) -> int:
        """Run a stage by the name that vLLM gives it. Raises RankFailed."""
        stages: dict[str, Callable[[int], int]] = {
            "init_device": self.init_device,
            "load_model": self.load_model,
            "determine_available_memory": self.determine_available_memory,
            "initialize_from_config": self.initialize_from_config,
            "compile_or_warm_up_model": self.compile_or_warm_up_model,
            "execute_model": self.execute_model,
        }
        return stages[stage](argument)

    def init_device(self, _: int) -> int:
        knobs, world = self.plan.knobs, self.plan.knobs.world_size
        backend = "nccl" if self.plan.gpus else "gloo"
        self.log.info_line(
            "parallel_state.py:1212",
            f"world_size={world} rank={self.number} local_rank={self.number} "
            f"distributed_init_method=tcp://127.0.0.1:45217 backend={backend}",
        )
        if self.number == 0 and world > 1:
            self.log.info_line("pynccl.py:111", "vLLM is using nccl==2.27.5")
        if self.plan.gpus:
            self.plan.pace.sleep(9)
            gpu = self.plan.gpus[self.number]
            fresh = self._now(Memory(gpu.total_bytes))
            try:
                self._hold(self.laws.init_device(fresh, knobs))
            except MemoryTaken as error:
                text = texts.memory_taken(error, self.number, knobs.gpu_memory_utilization)
                raise RankFailed(stacks().init_device, "ValueError", text) from error
        if self.number == 0 or world > 1:
            self.log.info_line(
                "parallel_state.py:1423",
                f"rank {self.number} in world size {world} is assigned as DP rank 0, PP rank "
                f"{self.number // knobs.tensor_parallel}, PCP rank 0, TP rank "
                f"{self.number % knobs.tensor_parallel}, EP rank N/A",
            )
        return 0

    def load_model(self, _: int) -> int:
        begun = time.monotonic()
        if self._speaks():
            self.log.info_line(
                "gpu_model_runner.py:4033", f"Starting to load model {self.plan.model}..."
            )
        self._check_layout()
        if self.plan.gpus:
            try:
                self._load_layers()
            except OutOfMemory as error:
                text = self._out_of_memory(error)
                if self.era.advises_on_load:
                    self.log.error_line("gpu_model_runner.py:4128", texts.load_failed(text))
                raise self._failed(stacks().create_weights, error) from error
        self.load_seconds = (time.monotonic() - begun) * self.plan.pace.speed
        if self._speaks():
            seconds = f"{self.load_seconds:.2f}"
            self.log.info_line("default_loader.py:291", f"Loading weights took {seconds} seconds")
            size = texts.gib(self.memory.allocated_bytes)
            self.log.info_line(
                "gpu_model_runner.py:4130",
                f"Model loading took {size} GiB memory and {self.load_seconds + 1.7:.6f} seconds",
            )
        return 0

    def determine_available_memory(self, _: int) -> int:
        plan, knobs = self.plan, self.plan.knobs
        if not plan.gpus:
            return 1 << 30
        if self.number == 0 and not knobs.enforce_eager:
            self.log.info_line("backends.py:812", "Dynamo bytecode transform time: 14.21 s")
        plan.pace.sleep(30)
        self._now(self.memory)
        try:
            peak = self.laws.profile(self.memory, plan.shape, knobs)
        except OutOfMemory as error:
            raise self._profile_failure(error) from error
        plan.gpus[self.number].hold(os.getpid(), self.memory.held_bytes + peak)
        plan.pace.sleep(30)
        self._hold(self.memory)
        if self.number == 0 and not knobs.enforce_eager:
            self.log.info_line("monitor.py:34", "torch.compile takes 41.87 s in total")
        available = self.laws.available_kv_bytes(self.memory, knobs, peak)
        if self._speaks() and knobs.kv_cache_memory_bytes is None:
            self.log.info_line(
                "gpu_worker.py:356", f"Available KV cache memory: {texts.gib(available)} GiB"
            )
            self._say_estimate()
        return available

    def _say_estimate(self) -> None:
        knobs = self.plan.knobs
        if estimate := self.laws.graph_estimate_bytes(self.plan.shape, knobs):
            share = estimate / self.memory.total_bytes
            text = texts.graph_estimate(knobs.gpu_memory_utilization, share)
            self.log.info_line("gpu_worker.py:371", text)

    def initialize_from_config(self, blocks: int) -> int:
        plan = self.plan
        if not plan.gpus:
            return 0
        size = blocks * physics.kv_block_bytes(plan.shape, plan.knobs)
        self._now(self.memory)
        try:
            cache = physics.KvPlan(blocks, size)
            grown = self.laws.allocate_kv(self.memory, cache, plan.shape, plan.knobs)
        except OutOfMemory as error:
            self._hold(error.memory)
            raise self._failed(stacks().allocate_kv, error) from error
        self._hold(grown)
        plan.pace.sleep(15)
        return 0

    def compile_or_warm_up_model(self, step: int) -> int:
        """Step 0: kernels; step 1 and 2: graphs and the sampler, in the order of the era.

        Real ranks meet in collectives between them; here the engine core asks for each.
        """
        if not self.plan.gpus:
            return 0
        if step == 0:
            self._warm_up_kernels()
        elif self.era.sampler_first == (step == 1):
            if not (self.era.sampler_first and self.plan.knobs.enforce_eager):
                self._warm_up_sampler()
        elif not self.plan.knobs.enforce_eager:
            self._capture()
        return 0

    def _warm_up_kernels(self) -> None:
        if not self.era.has_kernel_warmup:
            return
        self.plan.pace.sleep(18)
        self._now(self.memory)
        try:
            self._hold(self.laws.warm_up_kernels(self.memory))
        except OutOfMemory as error:
            raise self._failed(stacks().kernels, error) from error

    def execute_model(self, tokens: int) -> int:
        if self.plan.gpus:
            self._now(self.memory)
            try:
                self.laws.run_batch(self.memory, self.plan.shape, self.plan.knobs, tokens)
            except OutOfMemory as error:
                raise self._failed(stacks().execute_model, error) from error
        return 0

    def _check_layout(self) -> None:
        shape, knobs = self.plan.shape, self.plan.knobs
        parts = knobs.tensor_parallel
        if shape.kv_heads % parts and parts % shape.kv_heads:
            raise RankFailed((*frames.LOAD_MODEL, *frames.KV_HEADS), "AssertionError", "")
        part = shape.moe_intermediate_size // parts
        if shape.weight_block and not knobs.expert_parallel and part % shape.weight_block:
            raise RankFailed(
                (*frames.LOAD_MODEL, *frames.CHECK_BLOCKS),
                "ValueError",
                f"The output_size of gate's and up's weight = {part} is not divisible by weight "
                f"quantization block_n = {shape.weight_block}.",
            )

    def _load_layers(self) -> None:
        plan = self.plan
        layers = physics.rank_layers(plan.shape, plan.knobs)
        shards = max(1, plan.shape.weight_bytes // SHARD_BYTES)
        pause = plan.shape.weight_bytes / LOAD_BYTES_PER_SECOND / layers
        for done, grown in enumerate(self.laws.load(self.memory, plan.shape, plan.knobs), start=1):
            self._hold(grown)
            self._now(self.memory)
            plan.pace.sleep(pause)
            if self.number == 0:
                self.log.shard_bar(shard_text(done, layers, shards, pause))

    def _capture(self) -> None:
        plan, before, begun = self.plan, self.memory.held_bytes, time.monotonic()
        sizes = len(physics.capture_sizes(plan.knobs))
        states = self.laws.capture_graphs(self.memory, plan.shape, plan.knobs)
        try:
            for done, grown in enumerate(states, start=1):
                self._hold(grown)
                plan.pace.sleep(75 / sizes)
                if self.number == 0:
                    self.log.bar(capture_text(done, sizes), first=done == 1, last=done == sizes)
        except OutOfMemory as error:
            raise self._failed(stacks().capture, error) from error
        if self.number == 0:
            seconds = (time.monotonic() - begun) * plan.pace.speed
            took = (self.memory.held_bytes - before) / (1 << 30)
            self.log.info_line(
                "gpu_model_runner.py:5063",
                f"Graph capturing finished in {seconds:.0f} secs, took {took:.2f} GiB",
            )
            if estimate := self.laws.graph_estimate_bytes(plan.shape, plan.knobs):
                taken = self.memory.held_bytes - before
                self.log.info_line("gpu_worker.py:972", texts.graph_pool(taken, estimate))

    def _warm_up_sampler(self) -> None:
        plan = self.plan
        before = self._now(self.memory)
        try:
            peak = self.laws.run_sampler(before, plan.shape, plan.knobs)
        except OutOfMemory as error:
            self._hold(error.memory)
            plan.pace.sleep(12)
            rows = stacks().warmup_sampler, stacks().warmup_logits
            raise self._sampler_failure(*rows, error) from error
        self._hold(peak)
        plan.pace.sleep(12)
        # The allocator keeps the segments, so the driver shows the peak from now on; inside the
        # process they are free for the next batch.
        self.memory = before

    def _profile_failure(self, error: OutOfMemory) -> RankFailed:
        if error.site == "sampler":
            rows = stacks().profile_sampler, stacks().profile_logits
            return self._sampler_failure(*rows, error)
        return self._failed(stacks().profile_forward, error)

    def _sampler_failure(
        self, outer: tuple[str, ...], logits: tuple[str, ...], error: OutOfMemory
    ) -> RankFailed:
        requests = physics.dummy_requests(self.plan.knobs)
        first = self.laws.logits_bytes(self.plan.shape, self.plan.knobs)
        if error.tried_bytes == physics.round_segment(first):
            # compute_logits stands outside vLLM's try block: no friendly text then.
            return self._failed(logits, error)
        if not self.era.advises_on_sampler:
            return self._failed((*outer, *stacks().sampler_sort), error)
        cause = (stacks().sampler_sort, f"torch.OutOfMemoryError: {self._out_of_memory(error)}")
        rows = (*outer, *stacks().sampler_raises)
        return RankFailed(rows, "RuntimeError", texts.sampler_failed(requests), cause)

    def _speaks(self) -> bool:
        """Whether this rank logs what all ranks have in common."""
        return self.number == 0 or self.era.every_rank_speaks

    def _failed(self, rows: tuple[str, ...], error: OutOfMemory) -> RankFailed:
        return RankFailed(rows, "torch.OutOfMemoryError", self._out_of_memory(error))

    def _out_of_memory(self, error: OutOfMemory) -> str:
        others, _ = self.plan.gpus[self.number].others(os.getpid())
        return texts.torch_out_of_memory(error, self.number, others)

    def _now(self, memory: Memory) -> Memory:
        """The same state beside what others hold at this moment."""
        living, nobody = self.plan.gpus[self.number].others(os.getpid())
        self.memory = replace(memory, others_bytes=sum(living.values()) + nobody)
        return self.memory

    def _hold(self, memory: Memory) -> None:
        self.memory = memory
        self.plan.gpus[self.number].hold(os.getpid(), memory.held_bytes)


def shard_text(done: int, layers: int, shards: int, pause_seconds: float) -> str:
    share, passed = done / layers, int(done * pause_seconds)
    left = int((layers - done) * pause_seconds)
    return (
        f"Loading safetensors checkpoint shards: {share:4.0%} Completed | "
        f"{int(share * shards)}/{shards} [{passed // 60:02d}:{passed % 60:02d}<"
        f"{left // 60:02d}:{left % 60:02d},  1.44s/it]"
    )


def capture_text(done: int, sizes: int) -> str:
    cells = f"{'█' * (10 * done // sizes):<10}"
    return (
        f"Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): {done / sizes:4.0%}|{cells}| "
        f"{done}/{sizes} [00:00<00:00,  1.02it/s]"
    )
