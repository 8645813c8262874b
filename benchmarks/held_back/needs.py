"""Computes what each stage of a start allocates, from hidden values and settings alone."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from benchmarks.held_back.truth import MIB, Settings, Truth
from vllm_warden.simulation.physics import Knobs, capture_sizes

SEGMENT_BYTES = 2 * MIB
"""Torch asks the driver for large blocks in multiples of 2 MiB."""

FORWARD_SHARES = (0.42, 0.33, 0.25)
BLOCK_TOKENS = 16
WITHOUT_KERNEL_WARM_UP = ("0.9.2",)


@dataclass(frozen=True, slots=True)
class Needs:
    """Allocations of one rank under some settings, stage by stage, in bytes."""

    outside: int
    weights: int
    forward: tuple[int, ...]
    full_batch: tuple[int, ...]
    sampler: tuple[int, ...]
    growth: int
    workspace: int
    graphs: tuple[int, ...]
    estimate: int

    @property
    def peak(self) -> int:
        """What profiling reports beside the weights."""
        return max(sum(self.forward), sum(self.sampler)) + self.growth


def knobs_of(truth: Truth, settings: Settings) -> Knobs:
    """The settings as the engine reads them."""
    fixed = settings.get("kv_cache_memory_bytes")
    return Knobs(
        max_model_len=int(settings["max_model_len"]),
        tensor_parallel=truth.ranks,
        gpu_memory_utilization=float(settings["gpu_memory_utilization"]),
        max_num_seqs=int(settings["max_num_seqs"]),
        max_num_batched_tokens=int(settings["max_num_batched_tokens"]),
        enforce_eager=bool(settings.get("enforce_eager", False)),
        kv_cache_memory_bytes=None if fixed is None else int(fixed),
    )


def needs(truth: Truth, knobs: Knobs, rank: int, launch: int | None) -> Needs:
    """``launch`` None is the worst that any launch can meet."""
    graphs = graph_steps(truth, knobs)
    attention = truth.attention_slope * knobs.max_model_len
    linear = truth.forward_fixed + truth.forward_slope * _up(
        knobs.max_num_batched_tokens, truth.token_tile
    )
    return Needs(
        outside=truth.context + truth.channel * (truth.ranks - 1) + jitter(truth, launch),
        weights=truth.weights[rank],
        forward=_forward(linear, attention),
        full_batch=_forward(linear, int(attention * truth.attention_factor)),
        sampler=sampler_steps(truth, knobs),
        growth=truth.growth,
        workspace=0 if truth.version in WITHOUT_KERNEL_WARM_UP else truth.workspace,
        graphs=graphs,
        estimate=int(sum(graphs) * truth.estimate_factor),
    )


def _forward(linear: int, attention: int) -> tuple[int, ...]:
    return (*(_segment(int(linear * share)) for share in FORWARD_SHARES), _segment(attention))


def sampler_steps(truth: Truth, knobs: Knobs) -> tuple[int, ...]:
    rows = min(knobs.max_num_seqs, knobs.max_num_batched_tokens)
    entries = rows * _up(truth.vocab, truth.vocab_tile)
    return tuple(_segment(int(per * entries)) for per in truth.sampler)


def graph_steps(truth: Truth, knobs: Knobs) -> tuple[int, ...]:
    """The largest batch size first, as vLLM captures them; it brings the pool with it."""
    if knobs.enforce_eager:
        return ()
    sizes = sorted(capture_sizes(knobs), reverse=True)
    steps = [
        _segment(int(truth.graph_base + truth.graph_slope * size**truth.graph_power))
        for size in sizes
    ]
    return (steps[0] + truth.graph_first, *steps[1:])


def jitter(truth: Truth, launch: int | None) -> int:
    """Skewed: most launches are near the low end, a few near the worst."""
    if launch is None:
        return truth.jitter
    return int(truth.jitter * random.Random(f"{truth.seed}/{launch}").random() ** 2)


def block_bytes(truth: Truth) -> int:
    heads = max(1, truth.kv_heads // truth.ranks)
    return 2 * 2 * heads * truth.head_dim * truth.layers * BLOCK_TOKENS


def kv_steps(truth: Truth, cache_bytes: int) -> tuple[int, ...]:
    """One tensor a layer, each rounded up."""
    return (_segment(cache_bytes // truth.layers),) * truth.layers


def request_bytes(truth: Truth, knobs: Knobs) -> int:
    return math.ceil(knobs.max_model_len / BLOCK_TOKENS) * block_bytes(truth)


def full_batch_tokens(knobs: Knobs) -> int:
    """A prompt so long stands for a full step: other requests fill what one cannot."""
    return min(knobs.max_num_batched_tokens, knobs.max_model_len - 64)


def _up(number: int, tile: int) -> int:
    return -(-number // tile) * tile


def _segment(size_bytes: int) -> int:
    return size_bytes if size_bytes < 10 * MIB else _up(size_bytes, SEGMENT_BYTES)
