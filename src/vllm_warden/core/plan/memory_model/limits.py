"""The largest values that a setup allows: context length, sequences, utilization."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from vllm_warden.core.plan.memory_model.estimate import Setup
from vllm_warden.core.plan.memory_model.verdict import (
    MemoryPlan,
    doubt_bytes,
    margin_bytes,
    plan_memory,
    usable_bytes,
)

SEQUENCES_LIMIT = 4096
LENGTH_LIMIT = 10_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """None: not known, or nothing works. ``max_num_seqs`` holds with the utilization beside it."""

    utilization: float | None
    max_model_len: int | None
    max_num_seqs: int | None
    is_length_of_model: bool = False


def find_limits(plan: MemoryPlan) -> Limits:
    """Each knob by itself, the others as asked; the utilization is the safe one for all."""
    utilization = safe_utilization(plan)
    if utilization is None:
        return Limits(None, None, None)
    setup = _with(plan.setup, utilization=utilization)
    safe = plan_memory(setup)
    of_model = setup.model.shape.max_position
    longest = longest_request(safe, of_model or LENGTH_LIMIT)
    return Limits(
        utilization=utilization,
        max_model_len=longest or None,
        max_num_seqs=_most(lambda count: _holds(setup, count), SEQUENCES_LIMIT) or None,
        is_length_of_model=bool(of_model and longest == of_model),
    )


def safe_utilization(plan: MemoryPlan) -> float | None:
    """(H - (G - Ghat) - margin) / total of the poorest rank, to 4 decimals; None if nothing is.

    The identity of decisions on memory, with H = what is left beside context and others.
    """
    values = []
    for one in plan.ranks:
        rank, setup = one.rank, plan.setup
        room = usable_bytes(rank, setup) - margin_bytes(rank, setup) - doubt_bytes(rank)
        values.append(math.floor(room / setup.gpu.total_bytes * 10_000) / 10_000)
    least = min(values)
    return min(least, 1.0) if least > 0 else None


def longest_request(plan: MemoryPlan, limit: int) -> int:
    """Tokens of the longest request that every rank's cache holds; 0 for none, or not known."""
    lengths = [
        one.rank.kv_needs.longest(one.rank.kv.bytes, limit)
        for one in plan.ranks
        if one.rank.kv_needs is not None
    ]
    return min(lengths, default=0)


def _holds(setup: Setup, count: int) -> bool:
    tokens = max(setup.options.max_num_batched_tokens, count)
    return plan_memory(_with(setup, max_num_seqs=count, max_num_batched_tokens=tokens)).fits


def _with(setup: Setup, **changes: float) -> Setup:
    return replace(setup, options=replace(setup.options, **changes))  # type: ignore[arg-type]


def _most(holds: Callable[[int], bool], limit: int) -> int:
    """The largest value for which it holds (bisection: more is never easier), 0 for none."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
