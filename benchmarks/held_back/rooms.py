"""Sums up how many bytes are left at each wall; the search and the score rest on it."""

from __future__ import annotations

import math
from enum import Enum

from benchmarks.held_back.needs import (
    Needs,
    block_bytes,
    knobs_of,
    kv_steps,
    needs,
    request_bytes,
)
from benchmarks.held_back.truth import Settings, Truth
from vllm_warden.simulation.physics import Knobs


class Wall(Enum):
    """What a start or a full batch can run into."""

    FLAG = "bad flag"
    INIT = "start-up check"
    LOAD = "weights"
    FORWARD = "profiled forward pass"
    SAMPLER = "profiled sampler"
    KV_PLAN = "KV cache too small"
    KV_ALLOC = "KV allocation"
    KERNELS = "kernel warm-up"
    CAPTURE = "graph capture"
    WARMUP = "sampler warm-up"
    FULL_BATCH = "full batch"


SAMPLER_FIRST = ("0.32.0",)


def rooms(truth: Truth, settings: Settings, others: int, launch: int | None) -> dict[Wall, int]:
    """Bytes left at each wall in the order of a start, on the worst rank; others on GPU 0 only."""
    knobs = knobs_of(truth, settings)
    each = [needs(truth, knobs, rank, launch) for rank in range(truth.ranks)]
    available = min(available_bytes(truth, knobs, need) for need in each)
    cache = max(0, available) // block_bytes(truth) * block_bytes(truth)
    found: dict[Wall, int] = {}
    for rank, need in enumerate(each):
        free = truth.total - (others if rank == 0 else 0) - need.outside
        for wall, room in _of_rank(truth, knobs, need, free, cache).items():
            found[wall] = min(room, found.get(wall, room))
    found[Wall.KV_PLAN] = available - request_bytes(truth, knobs)
    return dict(sorted(found.items(), key=lambda one: _order(truth).index(one[0])))


def available_bytes(truth: Truth, knobs: Knobs, need: Needs) -> int:
    """What the engine gives the KV cache; may be negative."""
    if knobs.kv_cache_memory_bytes is not None:
        return knobs.kv_cache_memory_bytes
    budget = math.ceil(knobs.gpu_memory_utilization * truth.total)
    return budget - need.weights - need.peak - need.estimate


def _of_rank(truth: Truth, knobs: Knobs, need: Needs, free: int, cache: int) -> dict[Wall, int]:
    waste = 1 + truth.waste
    loaded = free - need.weights
    cached = loaded - sum(kv_steps(truth, cache))
    warm = cached - need.workspace
    captured = warm - sum(need.graphs)
    batch = int(max(sum(need.full_batch), sum(need.sampler)) * waste)
    before = warm if truth.version in SAMPLER_FIRST else captured
    return {
        Wall.INIT: free - math.ceil(knobs.gpu_memory_utilization * truth.total),
        Wall.LOAD: loaded,
        Wall.FORWARD: loaded - need.growth - int(sum(need.forward) * waste),
        Wall.SAMPLER: loaded - need.growth - int(sum(need.sampler) * waste),
        Wall.KV_ALLOC: cached,
        Wall.KERNELS: warm,
        Wall.CAPTURE: captured,
        Wall.WARMUP: before - int(sum(need.sampler) * waste),
        Wall.FULL_BATCH: captured - batch,
    }


def _order(truth: Truth) -> list[Wall]:
    order = list(Wall)
    if truth.version in SAMPLER_FIRST:
        at = order.index(Wall.CAPTURE)
        order[at : at + 2] = [Wall.WARMUP, Wall.CAPTURE]
    return order


def first_wall(truth: Truth, settings: Settings, others: int, launch: int | None) -> Wall | None:
    """The first wall without room; None when the engine survives a full batch."""
    found = rooms(truth, settings, others, launch)
    return next((wall for wall, room in found.items() if room < 0), None)
