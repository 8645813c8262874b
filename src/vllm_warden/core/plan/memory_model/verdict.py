"""Says whether a setup fits, by how much, and at which moment of the start it would not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from vllm_warden.core.model import GIB
from vllm_warden.core.plan.memory_model.estimate import RankEstimate, Setup, estimate_ranks
from vllm_warden.core.plan.memory_model.margin import UNREAD_BYTES, margin

CHECK_DOUBT_BYTES = GIB // 4
"""What a driver may hold back of the memory it reports, beside the context."""
GRAPHS_ESTIMATE_MISS = 0.2
"""Fraction by which vLLM's own estimate of its graphs is assumed to be off."""


class Wall(Enum):
    """What a start runs into, in the order in which it would."""

    WEIGHTS = "weights do not fit"
    TAKEN = "less is free than utilization x total"
    PEAK = "weights and the profiled peak do not fit"
    NO_CACHE = "no memory is left for the KV cache"
    SHORT_CACHE = "the KV cache does not hold one request of max_model_len"
    AFTER_CACHE = "CUDA graphs and the sampler do not fit beside the budget"


@dataclass(frozen=True, slots=True)
class Check:
    """``spare_bytes`` is negative where it does not fit; certain when it outweighs all doubts."""

    wall: Wall
    spare_bytes: int
    is_certain: bool = True

    @property
    def holds(self) -> bool:
        return self.spare_bytes >= 0


@dataclass(frozen=True, slots=True)
class RankPlan:
    """One rank with its checks, its cache in tokens, and what a full-length request needs."""

    rank: RankEstimate
    checks: tuple[Check, ...]
    kv_tokens: int | None
    request_bytes: int | None
    concurrency: float | None

    @property
    def first_wall(self) -> Check | None:
        return next((check for check in self.checks if not check.holds), None)


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """All stages of a setup; ``worst`` is the one that decides."""

    setup: Setup
    ranks: tuple[RankPlan, ...]
    worst: RankPlan

    @property
    def fits(self) -> bool:
        return self.worst.first_wall is None


def plan_memory(setup: Setup) -> MemoryPlan:
    """The plan of a setup; every rank gets as many blocks as the poorest (as vLLM does)."""
    ranks = tuple(_rank_plan(rank, setup) for rank in estimate_ranks(setup))
    return MemoryPlan(setup, ranks, min(ranks, key=_badness))


def margin_bytes(rank: RankEstimate, setup: Setup) -> int:
    """What stays free beside the budget for fragmentation and drift."""
    unseen = 0 if setup.measured.peak_bytes is not None else UNREAD_BYTES
    return int(margin(rank.peak.bytes) + unseen)


def doubt_bytes(rank: RankEstimate) -> int:
    """How far context and unbudgeted graphs may be off together.

    Where vLLM budgets the graphs by its own estimate, only what that misses counts.
    """
    graphs = rank.graphs.uncertainty_bytes
    if rank.graphs_budgeted.bytes:
        graphs = int(rank.graphs.bytes * GRAPHS_ESTIMATE_MISS)
    return math.isqrt(rank.outside.uncertainty_bytes**2 + graphs**2)


def usable_bytes(rank: RankEstimate, setup: Setup) -> int:
    """What the budget may be at most: all but context, other processes, unbudgeted graphs."""
    outside = 0 if setup.era.is_nccl_inside else rank.outside.bytes
    unbudgeted = rank.graphs.bytes - rank.graphs_budgeted.bytes
    return setup.gpu.total_bytes - setup.gpu.others_bytes - outside - unbudgeted


def _badness(plan: RankPlan) -> tuple[int, float]:
    wall = plan.first_wall
    order = len(Wall) if wall is None else list(Wall).index(wall.wall)
    tokens = plan.kv_tokens
    return order, float(plan.rank.kv.bytes if tokens is None else tokens)


def _rank_plan(rank: RankEstimate, setup: Setup) -> RankPlan:
    total = setup.gpu.total_bytes - setup.gpu.others_bytes
    at_rest = rank.outside.bytes + rank.weights.bytes
    doubt = rank.weights.uncertainty_bytes + rank.outside.uncertainty_bytes
    peak_doubt = doubt + rank.peak.uncertainty_bytes
    fixed = setup.options.kv_cache_memory_bytes is not None
    checks = [
        _check(Wall.WEIGHTS, total - at_rest, doubt),
        _check(Wall.TAKEN, total - rank.outside.bytes - rank.requested_bytes, CHECK_DOUBT_BYTES),
        _check(Wall.PEAK, total - at_rest - rank.inside.bytes - rank.peak.bytes, peak_doubt),
        _check(Wall.NO_CACHE, rank.kv.bytes - 1, rank.kv.uncertainty_bytes),
    ]
    needs, options = rank.kv_needs, setup.options
    request = needs.request_bytes(options.max_model_len) if needs else None
    if request is not None:
        spare = rank.kv.bytes - request
        checks.append(_check(Wall.SHORT_CACHE, spare, rank.kv.uncertainty_bytes))
    budget = rank.requested_bytes
    if fixed:
        budget = rank.weights.bytes + rank.inside.bytes + rank.peak.bytes + rank.kv.bytes
        budget += rank.graphs_budgeted.bytes
    spare = usable_bytes(rank, setup) - budget
    checks.append(_check(Wall.AFTER_CACHE, spare, margin_bytes(rank, setup) + doubt_bytes(rank)))
    return RankPlan(
        rank=rank,
        checks=tuple(checks),
        kv_tokens=needs.tokens(rank.kv.bytes, options.max_model_len) if needs else None,
        request_bytes=request,
        concurrency=max(0, rank.kv.bytes) / request if request else None,
    )


def _check(wall: Wall, spare_bytes: int, doubt_bytes: int) -> Check:
    return Check(wall, spare_bytes, abs(spare_bytes) > doubt_bytes)
