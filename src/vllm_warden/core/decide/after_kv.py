"""Running out of memory once the KV cache exists: the budget has to leave more room.

The identity: whatever vLLM did not budget must fit beside the budget, for any number of
sequences and batched tokens, because vLLM itself sets aside the peak of the settings it boots
with. So   utilization x total <= H - (G - Ghat) - margin,   H = free + allocated of the torch
text, G the real and Ghat the budgeted bytes of CUDA graphs.
"""

from __future__ import annotations

import math

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Useless
from vllm_warden.core.decide.proposal import Proposal, Target, gib, lower
from vllm_warden.core.model import GIB, MIB, Phase

MARGIN_BYTES = 0.3 * GIB
MARGIN_PEAK_FRACTION = 0.04
MARGIN_UNKNOWN_PEAK_BYTES = 0.7 * GIB
"""Margins as tuned in a simulation of 2,400 start-ups: 300-500 MiB is the knee of the curve."""
STEP_BACK_BYTES = 300 * MIB
"""Never above what failed, less this: the same budget would fail the same way."""
BLIND_STEP = 0.05
"""Without numbers; in the same simulation one step of 0.05 cured 96-100 % of these failures."""
ASSUMED_GRAPHS_BYTES = 1.5 * GIB
"""CUDA graphs of a model whose capture was not seen to its end."""

SEQUENCES_ALONE = Useless(
    "max_num_seqs",
    "alone it frees nothing after the KV cache exists: vLLM gives the freed bytes to the cache",
)
SHORTER_CONTEXT = Useless("max_model_len", "the size of the KV cache does not depend on it")


def leave_more_room(case: Case) -> Proposal:
    """Lower the budget (utilization, or the fixed KV bytes) by what the numbers ask for."""
    useless = (SEQUENCES_ALONE, SHORTER_CONTEXT)
    options = (
        "lower gpu_memory_utilization, or the bound adapt.gpu_memory_utilization.min",
        "free memory held by other processes on these GPUs",
        "capture fewer CUDA graphs (max_cudagraph_capture_size)",
    )
    reason = "the KV cache left too little room for what vLLM allocates after it"
    if case.now("kv_cache_memory_bytes") is not None:
        return lower(
            case, _smaller_kv(case), reason=reason, useless=(SHORTER_CONTEXT,), options=options
        )
    return lower(case, _utilization(case), reason=reason, useless=useless, options=options)


def _utilization(case: Case) -> Target:
    now = case.now("gpu_memory_utilization") or 0.0
    free, allocated = case.figure("free_bytes"), case.figure("allocated_bytes")
    total = case.figure("total_bytes")
    if free is None or allocated is None or not total:
        lines: tuple[str, ...] = (
            f"the log has no free and total memory: one step of {BLIND_STEP} from {now:g}",
        )
        value = round(now - BLIND_STEP, 4)
        return Target("gpu_memory_utilization", value, lines, exact=False, blind=True)
    graphs, estimate = _graph_bytes(case), case.figure("graphs_estimated_bytes") or 0.0
    margin = _margin(case, now * total)
    usable = free + allocated
    room = usable - (graphs - estimate) - margin
    ceiling = now * total - STEP_BACK_BYTES
    value = math.floor(min(room, ceiling) / total * 10_000) / 10_000
    lines = (
        (
            f"usable by torch: {gib(free)} free + {gib(allocated)} allocated = {gib(usable)} "
            f"of {gib(total)}"
        ),
        (
            f"minus CUDA graphs outside the budget {gib(graphs - estimate)}, margin {gib(margin)}"
            f" = {gib(room)} for the budget; it was {gib(now * total)}"
        ),
        f"{gib(min(room, ceiling))} / {gib(total)} = {value:.4f}",
    )
    return Target("gpu_memory_utilization", value, lines, exact=True)


def _graph_bytes(case: Case) -> float:
    real = case.figure("graphs_bytes")
    if real is not None:
        return real
    pools = case.figure("private_pools_bytes") or 0.0
    if case.diagnosis.phase is Phase.CUDAGRAPH:
        return max(2 * pools, ASSUMED_GRAPHS_BYTES)
    return pools


def _margin(case: Case, budget_bytes: float) -> float:
    weights, available = case.figure("weights_bytes"), case.figure("available_kv_bytes")
    if weights is None or available is None:
        return MARGIN_UNKNOWN_PEAK_BYTES
    estimate = case.figure("graphs_estimated_bytes") or 0.0
    peak = max(0.0, budget_bytes - weights - available - estimate)
    return MARGIN_BYTES + MARGIN_PEAK_FRACTION * peak


def _smaller_kv(case: Case) -> Target:
    """With a fixed KV size nothing flows back to the cache, so the shortfall itself is taken."""
    now = case.now("kv_cache_memory_bytes") or 0.0
    tried, free = case.figure("tried_bytes"), case.figure("free_bytes")
    if tried is None or free is None:
        lines: tuple[str, ...] = (
            f"no free memory is known: three quarters of the fixed {gib(now)}",
        )
        return Target("kv_cache_memory_bytes", int(now * 3 / 4), lines, exact=False, blind=True)
    missing = max(0.0, tried - free) + MARGIN_UNKNOWN_PEAK_BYTES
    lines = (
        (
            f"tried {gib(tried)} with {gib(free)} free; with a margin of "
            f"{gib(MARGIN_UNKNOWN_PEAK_BYTES)} at least {gib(missing)} are missing"
        ),
        f"{gib(now)} - {gib(missing)} = {gib(now - missing)}",
    )
    return Target("kv_cache_memory_bytes", int(now - missing), lines, exact=False)
