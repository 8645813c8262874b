"""Computes what vLLM 0.15 needs of a GPU, and which allocation fails, from numbers alone.

Start-up order and formulas are those of the V1 engine up to 0.16: utilization sizes the KV cache
and the start-up check only, CUDA graphs are in no budget, the sampler's dummy run happens in
profiling and again after everything else is resident. Nothing here counts attempts: the same
settings on the same memory always end the same way. All sizes are bytes of one GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

MIB = 1 << 20
BLOCK_TOKENS = 16

CONTEXT_BYTES = 560 * MIB
"""CUDA context and libraries of one process; outside vLLM's budget since 0.11."""

NCCL_BYTES = 820_750_000
"""NCCL's base buffers per rank, so that MiniMax-M2.5 at TP 4 shows 56,179 MiB after loading."""

ACTIVATION_BYTES_PER_TOKEN_AND_HIDDEN = 180
"""Calibrated: 4,320 MiB for 8,192 tokens of hidden size 3,072."""

GRAPH_BYTES_PER_LAYER_AND_SIZE = 985_000
"""Calibrated: 2.9 GiB for 51 capture sizes of 62 layers; vLLM logs 2 to 3 GiB for such models."""

KERNEL_WORKSPACE_BYTES = 420 * MIB
"""Left behind by kernel warm-up, in no budget: torch has it reserved but unallocated."""

WASTE_FRACTION = 0.04
"""Fragmentation: what the allocator takes from the driver beyond what was asked for."""

SAMPLER_BYTES_PER_ENTRY = (2, 4, 4, 8, 8, 8, 4, 12)
"""Tensors alive at the peak of the sort path (vLLM <= 0.16), in order of allocation: logits in
bf16 and fp32, sorted values, indices, sort buffers, radix scratch; 50 bytes per entry."""


class OutOfMemory(Exception):  # noqa: N818 - the name torch gives it
    """An allocation that did not fit; ``memory`` is the state in which it failed."""

    def __init__(self, tried_bytes: int, memory: Memory, site: str) -> None:
        super().__init__(f"{site}: tried {tried_bytes}, free {memory.free_bytes}")
        self.tried_bytes = tried_bytes
        self.memory = memory
        self.site = site


class MemoryTaken(Exception):  # noqa: N818 - names what is the case
    """The start-up check: less is free than utilization x total."""

    def __init__(self, memory: Memory, requested_bytes: int) -> None:
        super().__init__(f"free {memory.free_bytes}, requested {requested_bytes}")
        self.memory = memory
        self.requested_bytes = requested_bytes


class NoCacheBlocks(Exception):  # noqa: N818 - names what is the case
    """The budget leaves nothing for the KV cache."""


class ModelLenTooLong(Exception):  # noqa: N818 - names what is the case
    """The KV cache does not hold one request of ``max_model_len`` tokens."""

    def __init__(self, needed_bytes: int, available_bytes: int, estimate_tokens: int) -> None:
        super().__init__(f"needed {needed_bytes}, available {available_bytes}")
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes
        self.estimate_tokens = estimate_tokens


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of a model that memory depends on."""

    weight_bytes: int
    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_position: int
    moe_intermediate_size: int = 0
    weight_block: int = 0
    architecture: str = "LlamaForCausalLM"


@dataclass(frozen=True, slots=True)
class Knobs:
    """The engine settings that memory depends on."""

    max_model_len: int
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: bool = False
    gpu_memory_utilization: float = 0.9
    max_num_seqs: int = 1024
    max_num_batched_tokens: int = 8192
    enforce_eager: bool = False
    kv_cache_memory_bytes: int | None = None
    kv_value_bytes: int = 2

    @property
    def world_size(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True, slots=True)
class Memory:
    """One GPU as one rank sees it; ``private_bytes`` is the graphs' part of ``allocated_bytes``."""

    total_bytes: int
    others_bytes: int = 0
    outside_bytes: int = 0
    allocated_bytes: int = 0
    unallocated_bytes: int = 0
    private_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """What the driver says this process has in use."""
        return self.outside_bytes + self.allocated_bytes + self.unallocated_bytes

    @property
    def free_bytes(self) -> int:
        return max(0, self.total_bytes - self.others_bytes - self.held_bytes)

    def allocate(self, size_bytes: int, site: str, waste_fraction: float = 0) -> Memory:
        """Take so many bytes from the driver, or raise OutOfMemory."""
        waste_bytes = int(size_bytes * waste_fraction)
        if size_bytes + waste_bytes > self.free_bytes:
            raise OutOfMemory(round_segment(size_bytes), self, site)
        return replace(
            self,
            allocated_bytes=self.allocated_bytes + size_bytes,
            unallocated_bytes=self.unallocated_bytes + waste_bytes,
        )


@dataclass(frozen=True, slots=True)
class KvPlan:
    """How many blocks of 16 tokens the cache gets; the same on every rank."""

    blocks: int
    bytes_per_rank: int

    @property
    def tokens(self) -> int:
        return self.blocks * BLOCK_TOKENS


def round_segment(size_bytes: int) -> int:
    """Sizes of 10 MiB and more are asked from the driver in multiples of 2 MiB (torch)."""
    return size_bytes if size_bytes < 10 * MIB else math.ceil(size_bytes / (2 * MIB)) * 2 * MIB


def requested_bytes(memory: Memory, knobs: Knobs) -> int:
    return math.ceil(knobs.gpu_memory_utilization * memory.total_bytes)


def rank_weight_bytes(shape: Shape, knobs: Knobs) -> int:
    return shape.weight_bytes // knobs.world_size


def rank_layers(shape: Shape, knobs: Knobs) -> int:
    return math.ceil(shape.layers / knobs.pipeline_parallel)


def dummy_requests(knobs: Knobs) -> int:
    """Rows of the sampler's dummy run."""
    return min(knobs.max_num_seqs, knobs.max_num_batched_tokens)


def sampler_bytes(shape: Shape, knobs: Knobs) -> int:
    """50 x rows x vocabulary, on every rank: the logits are gathered everywhere."""
    return sum(SAMPLER_BYTES_PER_ENTRY) * dummy_requests(knobs) * shape.vocab_size


def activation_bytes(shape: Shape, knobs: Knobs, tokens: int | None = None) -> int:
    """Peak of a forward pass over so many tokens (default: the largest batch)."""
    count = knobs.max_num_batched_tokens if tokens is None else tokens
    return ACTIVATION_BYTES_PER_TOKEN_AND_HIDDEN * count * shape.hidden_size


def capture_sizes(knobs: Knobs) -> tuple[int, ...]:
    """Batch sizes that get a CUDA graph: up to min(2 x max_num_seqs, 512) since 0.10."""
    largest = min(2 * knobs.max_num_seqs, 512, knobs.max_num_batched_tokens)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    return tuple(size for size in sizes if size <= largest)


def kv_block_bytes(shape: Shape, knobs: Knobs) -> int:
    """Bytes of one block of 16 tokens on one rank; heads are replicated beyond their number."""
    heads = max(1, shape.kv_heads // knobs.tensor_parallel)
    per_token = 2 * heads * shape.head_dim * knobs.kv_value_bytes * rank_layers(shape, knobs)
    return per_token * BLOCK_TOKENS


def init_device(memory: Memory, knobs: Knobs) -> Memory:
    """Context and NCCL, then the check that utilization x total is free. Raises MemoryTaken."""
    outside = CONTEXT_BYTES + (NCCL_BYTES if knobs.world_size > 1 else 0)
    ready = replace(memory, outside_bytes=outside)
    if ready.free_bytes < (wanted := requested_bytes(memory, knobs)):
        raise MemoryTaken(ready, wanted)
    return ready


def load(memory: Memory, shape: Shape, knobs: Knobs) -> Iterator[Memory]:
    """Weights, layer by layer. Raises OutOfMemory (weights); utilization plays no part."""
    total, layers = rank_weight_bytes(shape, knobs), rank_layers(shape, knobs)
    for layer in range(layers):
        size = total * (layer + 1) // layers - total * layer // layers
        memory = memory.allocate(size, "weights")
        yield memory


def profile(memory: Memory, shape: Shape, knobs: Knobs) -> int:
    """Peak of the profile run above the weights. Raises OutOfMemory (activations, sampler)."""
    activations = activation_bytes(shape, knobs)
    memory.allocate(activations, "activations", WASTE_FRACTION)
    run_sampler(memory, shape, knobs)
    return max(activations, sampler_bytes(shape, knobs))


def logits_bytes(shape: Shape, knobs: Knobs) -> int:
    """The sampler's first tensor."""
    return SAMPLER_BYTES_PER_ENTRY[0] * dummy_requests(knobs) * shape.vocab_size


def run_sampler(memory: Memory, shape: Shape, knobs: Knobs) -> Memory:
    """The sampler's tensors one after the other; the state at its peak."""
    for per_entry in SAMPLER_BYTES_PER_ENTRY:
        size = per_entry * dummy_requests(knobs) * shape.vocab_size
        memory = memory.allocate(size, "sampler", WASTE_FRACTION)
    return memory


def available_kv_bytes(memory: Memory, knobs: Knobs, peak_bytes: int) -> int:
    """Utilization x total - weights - peak; may be negative. Graphs are not in it (< 0.20)."""
    if knobs.kv_cache_memory_bytes is not None:
        return knobs.kv_cache_memory_bytes
    return requested_bytes(memory, knobs) - memory.allocated_bytes - peak_bytes


def graph_estimate_bytes(_shape: Shape, _knobs: Knobs) -> int:
    """What the budget holds for CUDA graphs: nothing up to 0.16."""
    return 0


def plan_kv(shape: Shape, knobs: Knobs, available_bytes: int) -> KvPlan:
    """Blocks for the cache. Raises NoCacheBlocks or ModelLenTooLong."""
    if available_bytes <= 0:
        raise NoCacheBlocks
    block_bytes = kv_block_bytes(shape, knobs)
    blocks = available_bytes // block_bytes
    needed = math.ceil(knobs.max_model_len / BLOCK_TOKENS)
    if blocks < needed:
        raise ModelLenTooLong(needed * block_bytes, available_bytes, blocks * BLOCK_TOKENS)
    return KvPlan(blocks, blocks * block_bytes)


def allocate_kv(memory: Memory, plan: KvPlan, shape: Shape, knobs: Knobs) -> Memory:
    """One tensor per layer. Raises OutOfMemory (kv_cache)."""
    layers = rank_layers(shape, knobs)
    for _ in range(layers):
        memory = memory.allocate(plan.bytes_per_rank // layers, "kv_cache")
    return memory


def warm_up_kernels(memory: Memory) -> Memory:
    """Raises OutOfMemory (kernels)."""
    if memory.free_bytes < KERNEL_WORKSPACE_BYTES:
        raise OutOfMemory(KERNEL_WORKSPACE_BYTES, memory, "kernels")
    left = memory.unallocated_bytes + KERNEL_WORKSPACE_BYTES
    return replace(memory, unallocated_bytes=left)


def capture_graphs(memory: Memory, shape: Shape, knobs: Knobs) -> Iterator[Memory]:
    """One state per captured size. Raises OutOfMemory (cuda_graphs)."""
    per_size = GRAPH_BYTES_PER_LAYER_AND_SIZE * rank_layers(shape, knobs)
    for _ in () if knobs.enforce_eager else capture_sizes(knobs):
        grown = memory.allocate(per_size, "cuda_graphs")
        memory = replace(grown, private_bytes=memory.private_bytes + per_size)
        yield memory


def run_batch(memory: Memory, shape: Shape, knobs: Knobs, tokens: int) -> None:
    """A serving step over so many tokens needs what profiling measured. Raises OutOfMemory."""
    batch = min(tokens, knobs.max_num_batched_tokens)
    memory.allocate(activation_bytes(shape, knobs, batch), "serving", WASTE_FRACTION)
