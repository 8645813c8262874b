"""Finds the smallest single changes with which a setup that does not fit would fit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from vllm_warden.core.model import GIB, Settings
from vllm_warden.core.plan.memory_model.estimate import Setup
from vllm_warden.core.plan.memory_model.layout import Layout
from vllm_warden.core.plan.memory_model.layouts import candidates, judge_layout
from vllm_warden.core.plan.memory_model.limits import longest_request, safe_utilization
from vllm_warden.core.plan.memory_model.same_load import still_measured
from vllm_warden.core.plan.memory_model.verdict import MemoryPlan, plan_memory

OFFLOAD_SPARE_BYTES = GIB
TOKENS_LEAST = 512
"""With fewer batched tokens a prompt takes so many steps that nobody would want it."""


@dataclass(frozen=True, slots=True)
class WayOut:
    """``settings`` are the options to set, ``what`` the same in words."""

    what: str
    settings: Settings = field(default_factory=dict)


def ways_out(plan: MemoryPlan, gpus: int) -> tuple[WayOut, ...]:
    """Cheapest first: knobs, then layouts, 8-bit weights, host memory.

    Each was computed and fits as a whole; empty for a plan that fits.
    """
    if plan.fits:
        return ()
    return tuple(_ways(plan, gpus))


def _ways(plan: MemoryPlan, gpus: int) -> Iterator[WayOut]:
    setup = plan.setup
    safe = safe_utilization(plan)
    if safe is not None and _fits(setup, utilization=safe):
        yield WayOut(f"gpu_memory_utilization {safe:.4f}", {"gpu_memory_utilization": safe})
    length = longest_request(plan, setup.options.max_model_len - 1)
    if length > 0 and _fits(setup, max_model_len=length):
        yield WayOut(f"max_model_len {length}", {"max_model_len": length})
    sequences = _fewer_sequences(setup)
    if sequences:
        yield WayOut(f"max_num_seqs {sequences}", {"max_num_seqs": sequences})
    tokens = _fewer_tokens(setup)
    if tokens:
        yield WayOut(f"max_num_batched_tokens {tokens}", {"max_num_batched_tokens": tokens})
    if setup.options.kv_value_bytes > 1 and _fits(setup, kv_value_bytes=1):
        yield WayOut("kv_cache_dtype fp8", {"kv_cache_dtype": "fp8"})
    yield from _layouts(setup, gpus)
    is_plain = setup.model.shape.quantization is None and not setup.options.quantization
    if is_plain and _fits(setup, quantization="fp8"):
        yield WayOut("quantization fp8", {"quantization": "fp8"})
    yield from _offload(plan)


def _fewer_sequences(setup: Setup) -> int:
    """The first half, quarter ... of the sequences that fits, 0 for none."""
    count = setup.options.max_num_seqs // 2
    if not _fits(setup, max_num_seqs=1):
        return 0  # what one sequence does not cure, fewer do not either
    while count >= 1:
        if _fits(setup, max_num_seqs=count):
            return count
        count //= 2
    return 0


def _fewer_tokens(setup: Setup) -> int:
    """The first half, quarter ... of the batch that fits, not below the sequences; 0 for none."""
    least = max(TOKENS_LEAST, setup.options.max_num_seqs)
    count = setup.options.max_num_batched_tokens // 2
    while count >= least:
        if _fits(setup, max_num_batched_tokens=count):
            return count
        count //= 2
    return 0


def _layouts(setup: Setup, gpus: int) -> Iterator[WayOut]:
    """The layout with the fewest GPUs, the fewest without pipelines, the best of all GPUs."""
    has_experts = setup.model.shape.experts is not None
    plain = sorted(candidates(gpus, has_experts=has_experts), key=_plainness)
    works = cache(lambda layout: judge_layout(setup, layout, gpus).works)
    found = (
        next((one for one in plain if works(one)), None),
        next((one for one in plain if one.gpus == one.tensor and works(one)), None),
        next((one for one in plain if one.gpus == gpus and works(one)), None),
    )
    for layout in dict.fromkeys(one for one in found if one is not None):
        yield WayOut(f"{layout.name} ({layout.gpus} GPUs)", _layout_settings(layout))


def _layout_settings(layout: Layout) -> Settings:
    return {
        "tensor_parallel_size": layout.tensor,
        "pipeline_parallel_size": layout.pipeline,
        "data_parallel_size": layout.data,
        "enable_expert_parallel": layout.expert_parallel,
    }


def _plainness(layout: Layout) -> tuple[int, int, int, bool]:
    """Few GPUs, then tensor parallel before pipelines and replicas: it answers soonest."""
    return layout.gpus, layout.pipeline, layout.data, layout.expert_parallel


def _offload(plan: MemoryPlan) -> Iterator[WayOut]:
    """Weights in host memory, as many as are missing at the worst wall."""
    short = max((-check.spare_bytes for check in plan.worst.checks if not check.holds), default=0)
    asked = plan.setup.options.offload_bytes
    gib = math.ceil((asked + short + OFFLOAD_SPARE_BYTES) / GIB)
    is_less = gib * GIB - asked < plan.worst.rank.weights.bytes
    if is_less and _fits(plan.setup, offload_bytes=gib * GIB):
        yield WayOut(f"cpu_offload_gb {gib} (slow)", {"cpu_offload_gb": gib})


def _fits(setup: Setup, **changes: float | str) -> bool:
    options = replace(setup.options, **changes)  # type: ignore[arg-type]
    seen = still_measured(setup.measured, setup.options, options)
    return plan_memory(replace(setup, options=options, measured=seen)).fits
