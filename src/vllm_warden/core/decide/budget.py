"""The one identity of GPU memory, term by term; every amount that is decided comes from here.

Once the KV cache exists, whatever vLLM did not budget must fit beside the budget R, for any
number of sequences and batched tokens, because vLLM itself sets aside the peak of the settings
it boots with:   R <= H - (G - Ghat) - margin,   H = free + allocated of the torch text, G the
real and Ghat the budgeted bytes of CUDA graphs. Within the budget, R = W + P + Ghat + KV.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vllm_warden.core.decide.case import Case
from vllm_warden.core.model import GIB, MIB, Phase
from vllm_warden.core.plan.defaults import world_size
from vllm_warden.core.plan.memory_model.era import NCCL_OUTSIDE_SINCE, Budgeted, era_of
from vllm_warden.core.plan.memory_model.margin import UNREAD_BYTES
from vllm_warden.core.plan.memory_model.margin import margin as margin_beside
from vllm_warden.core.plan.memory_model.measured import measured_peak
from vllm_warden.core.plan.memory_model.overhead import CONTEXT_BYTES, NCCL_BYTES
from vllm_warden.core.plan.spec import EngineFacts

MARGIN_UNKNOWN_PEAK_BYTES = 0.7 * GIB
"""Kept free where the peak is not known, by the same simulation as ``margin_beside``."""
ASSUMED_GRAPHS_BYTES = 1.5 * GIB
"""CUDA graphs of a model whose capture was not seen to its end."""
SAME_TOTAL_BYTES = 16 * MIB
"""torch prints the GPU's memory with two decimals of a GiB; NVML tells it exactly."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The terms of one attempt, in bytes. ``peak`` is measured: P = R - W - Av - Ghat."""

    total: float
    requested: float
    weights: float
    available: float
    estimate: float
    peak: float


def total_bytes(case: Case) -> float | None:
    """The GPU's memory: as NVML tells it, else as torch or vLLM print it."""
    printed, exact = case.figure("total_bytes"), case.gpu_total_bytes
    if exact is not None and (printed is None or abs(exact - printed) <= SAME_TOTAL_BYTES):
        return float(exact)
    return printed


def budget_of(case: Case) -> Budget | None:
    """All terms of the dead attempt, None where its log does not tell them."""
    total, now = total_bytes(case), case.now("gpu_memory_utilization")
    weights, available = case.figure("weights_bytes"), _available(case)
    if not total or not now or weights is None or available is None:
        return None
    estimate = estimated_graphs(case)
    requested = now * total
    peak = measured_peak(requested, weights, available, estimate)
    return Budget(total, requested, weights, available, estimate, peak)


def _available(case: Case) -> float | None:
    planned = case.figure("available_bytes")
    return case.figure("available_kv_bytes") if planned is None else planned


def usable(free: float, allocated: float) -> float:
    """H: what torch could have had in all. Reserved but unallocated memory is lost, not spare."""
    return free + allocated


def margin(peak: float | None) -> float:
    """Kept free for what the allocator wastes; more where the peak is not known."""
    if peak is None:
        return MARGIN_UNKNOWN_PEAK_BYTES
    return margin_beside(peak)


def unbudgeted(graphs: float, estimate: float) -> float:
    """Bytes of CUDA graphs that the budget does not hold, G - Ghat."""
    return graphs - estimate


def room(usable_bytes: float, graphs_outside: float, kept: float) -> float:
    """The largest budget that leaves enough beside it."""
    return usable_bytes - graphs_outside - kept


def fraction_of(size: float, total: float) -> float:
    """Utilization in four decimals, down; what is whole but for the float's error stays."""
    return math.floor(size / total * 10_000 + 1e-6) / 10_000


def estimated_graphs(case: Case) -> float:
    """Ghat: 0 where nothing was budgeted."""
    return case.figure("graphs_estimated_bytes") or 0.0


def real_graphs(case: Case) -> tuple[float, bool]:
    """G, and whether it was measured: printed, in torch's private pools, else assumed."""
    printed, pools = case.figure("graphs_bytes"), case.figure("private_pools_bytes")
    if printed is not None:
        return printed, True
    captured, sizes = case.figure("graphs_captured"), case.figure("graphs_sizes")
    if case.diagnosis.phase is Phase.CUDAGRAPH and pools is not None:
        if captured and sizes:
            return pools * sizes / captured, False
        return max(2 * pools, assumed_graphs(case)), False
    if case.diagnosis.phase in (Phase.WARMUP, Phase.SERVING):
        return pools or 0.0, True
    return assumed_graphs(case), False


def assumed_graphs(case: Case) -> float:
    """G before any capture: as an earlier attempt measured it, else a usual size."""
    if case.in_force.get("enforce_eager") is True:
        return 0.0
    seen = [one.figure("graphs_bytes") or 0.0 for one in case.observations]
    if measured := max(seen, default=0.0):
        return measured
    return max(ASSUMED_GRAPHS_BYTES, estimated_graphs(case))


def assumed_outside(case: Case) -> float:
    """G - Ghat before any capture; 0 for versions that budget their graphs."""
    era = era_of(EngineFacts(version=case.engine_version()))
    return 0.0 if era.graphs is Budgeted.YES else unbudgeted(assumed_graphs(case), 0.0)


def assumed_estimate(case: Case) -> float:
    """Ghat before it is printed."""
    printed = estimated_graphs(case)
    era = era_of(EngineFacts(version=case.engine_version()))
    if printed or era.graphs is not Budgeted.YES:
        return printed
    return assumed_graphs(case)


def outside_bytes(case: Case) -> float:
    """CUDA context and NCCL, which no budget holds."""
    has_peers = world_size(case.in_force) > 1
    return CONTEXT_BYTES + (NCCL_BYTES if has_peers else 0)


def nccl_in_peak(case: Case) -> float:
    """NCCL's buffers where they were counted with the measured peak (before 0.11)."""
    era = era_of(EngineFacts(version=case.engine_version()))
    inside = era.version < NCCL_OUTSIDE_SINCE and world_size(case.in_force) > 1
    return NCCL_BYTES if inside else 0.0


def usable_before(case: Case) -> tuple[float, float] | None:
    """H without a text of torch in this death, and what to keep free because of that.

    As an earlier attempt's text told it, else what was free at launch less the context.
    """
    told = [
        usable(free, allocated)
        for one in case.observations
        if (free := one.figure("free_bytes")) is not None
        and (allocated := one.figure("allocated_bytes")) is not None
    ]
    if told:
        return min(told), 0.0
    found = usable_by_nvml(case)
    return None if found is None else (found, UNREAD_BYTES)


def usable_by_nvml(case: Case) -> float | None:
    """H before any out-of-memory text: what was free at launch, less the context."""
    total = total_bytes(case)
    free = case.free_at_launch_bytes
    if free is None and total is None:
        return None
    return (total if free is None else free or 0.0) - outside_bytes(case)  # type: ignore[operator]


def least_known_bad(case: Case) -> float | None:
    """The smallest utilization that left too little room before."""
    bad = [
        one.settings["gpu_memory_utilization"]
        for one in case.observations
        if one.is_beyond_budget and "gpu_memory_utilization" in one.settings
    ]
    return min(bad, default=None)
