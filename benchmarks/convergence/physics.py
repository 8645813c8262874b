"""Computes the room left at every wall of a start, from hidden values and settings alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.convergence.scenario import BLOCK_TOKENS, Settings, Truth, Wall

FIRST_SIZES = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Needs:
    """What the settings cost on this truth, in bytes; ``kv`` may be negative."""

    requested: int
    activations: int
    sampler: int
    peak: int
    graphs: int
    estimate: int
    kv_request: int
    sizes: int


@dataclass(frozen=True, slots=True)
class Others:
    """Memory of everybody else: at the start-up check, while profiling, and later."""

    init: int = 0
    profile: int = 0
    later: int = 0


def number(settings: Settings, name: str) -> float:
    value = settings[name]
    if isinstance(value, str):
        raise TypeError(name)
    return float(value)


def capture_sizes(truth: Truth, seqs: int, tokens: int) -> int:
    """How many batch sizes get a CUDA graph; up to min(2 x sequences, 512) since 0.10."""
    largest = 512 if truth.era.version == "0.9.2" else min(2 * seqs, 512)
    largest = min(largest, tokens)
    count = sum(size <= largest for size in FIRST_SIZES)
    count += max(0, min(largest, 248) // 8)
    return count + (max(0, (largest - 256) // 16 + 1) if largest >= 256 else 0)


ALL_SIZES = 3 + 31 + 17


def graph_bytes(truth: Truth, sizes: int) -> int:
    """Graphs of so many batch sizes; the largest is captured first."""
    if not sizes:
        return 0
    even = truth.graphs_full * (1 - truth.graphs_front) * sizes / ALL_SIZES
    return int(truth.graphs_full * truth.graphs_front + even)


def needs(truth: Truth, settings: Settings) -> Needs:
    seqs, tokens = int(number(settings, "max_num_seqs")), int(settings["max_num_batched_tokens"])
    rows = min(seqs, tokens)
    activations = truth.act_fixed + truth.act_per_token * tokens
    sampler = int(truth.era.sampler_bytes * truth.row_factor * rows * truth.vocab)
    eager = bool(settings.get("enforce_eager", False))
    sizes = 0 if eager else capture_sizes(truth, seqs, tokens)
    graphs = graph_bytes(truth, sizes)
    estimate = int(graphs * truth.estimate_factor) if truth.era.graphs_budgeted else 0
    blocks = math.ceil(number(settings, "max_model_len") / BLOCK_TOKENS)
    return Needs(
        requested=math.ceil(number(settings, "gpu_memory_utilization") * truth.total),
        activations=activations,
        sampler=sampler,
        peak=max(activations, sampler),
        graphs=graphs,
        estimate=estimate,
        kv_request=blocks * BLOCK_TOKENS * truth.kv_per_token + truth.state_page,
        sizes=sizes,
    )


def available_kv(truth: Truth, settings: Settings, need: Needs, others: Others) -> int:
    """What vLLM prints as available for the KV cache."""
    fixed = settings.get("kv_cache_memory_bytes")
    if fixed is not None:
        return int(fixed)
    inside = truth.nccl if truth.era.nccl_in_budget else 0
    grown = others.profile - others.init
    return need.requested - truth.weights - need.peak - inside - grown - need.estimate


def allocated_kv(truth: Truth, available: int) -> int:
    block = BLOCK_TOKENS * truth.kv_per_token
    return max(0, available) // block * block


def slacks(
    truth: Truth, settings: Settings, others: Others, noise: int = 0, spike: int = 0
) -> dict[Wall, int]:
    """Bytes left at each wall in the order of a start; negative is a failure there."""
    need = needs(truth, settings)
    outside = truth.context + truth.nccl
    before = truth.total - others.init - outside
    counted = before + truth.nccl if truth.era.nccl_in_budget else before
    profiled = truth.total - max(others.init, others.profile) - outside
    waste = 1 + truth.fragmentation
    available = available_kv(truth, settings, need, others)
    kv = allocated_kv(truth, available)
    later = truth.total - others.later - outside - truth.weights - kv
    left = later - truth.drift - noise
    states = truth.state_page * int(number(settings, "max_num_seqs"))
    peak = int(need.peak * waste)
    return {
        Wall.INIT: counted - need.requested,
        Wall.LOAD: before - truth.weights,
        Wall.PROFILE_FORWARD: profiled - truth.weights - int(need.activations * waste),
        Wall.PROFILE_SAMPLER: profiled - truth.weights - int(need.sampler * waste),
        Wall.DISTURBED: truth.weights + others.profile - others.init,
        Wall.KV_PLAN: available - need.kv_request,
        Wall.STATE_BLOCKS: available - states if states else 1,
        Wall.KV_ALLOC: later,
        Wall.CAPTURE: left - need.graphs,
        Wall.WARMUP: left - need.graphs - int(need.sampler * waste),
        Wall.FULL_BATCH: left - need.graphs - peak,
        Wall.SPIKE: left - need.graphs - peak - spike,
    }


def first_wall(room: dict[Wall, int], last: Wall = Wall.WARMUP) -> Wall | None:
    """The first wall up to ``last`` without room, None when the engine gets beyond it."""
    for wall, bytes_left in room.items():
        if bytes_left < 0:
            return wall
        if wall is last:
            return None
    return None


def kv_tokens(truth: Truth, settings: Settings, others: Others) -> int:
    available = available_kv(truth, settings, needs(truth, settings), others)
    return max(0, available) // (BLOCK_TOKENS * truth.kv_per_token) * BLOCK_TOKENS


def capacity(truth: Truth, settings: Settings, asked: Settings, others: Others) -> float:
    """Typical requests at once, times the context kept, 7 % less per halving of the batch."""
    tokens = kv_tokens(truth, settings, others)
    at_once = min(number(settings, "max_num_seqs"), tokens / truth.typical_tokens)
    kept = number(settings, "max_model_len") / number(asked, "max_model_len")
    halvings = math.log2(
        max(
            1.0,
            number(asked, "max_num_batched_tokens") / number(settings, "max_num_batched_tokens"),
        )
    )
    return float(at_once * min(1.0, kept) * 0.93**halvings)
