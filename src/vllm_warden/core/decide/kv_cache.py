"""The KV cache came out too small: lowering utilization would make it smaller still."""

from __future__ import annotations

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Change, Remedy, Useless
from vllm_warden.core.decide.proposal import Proposal, Target, gib, lower, round_down
from vllm_warden.core.decide.sampler import bytes_per_entry
from vllm_warden.core.model import GIB, MIB

SAMPLER_DOMINATED_FRACTION = 0.12
SAMPLER_DOMINATED_BYTES = 0.4 * GIB
"""A measured peak within these of the sampler's need is the sampler's (right in 94 % of 400)."""
SPARE_BYTES = 64 * MIB

LOWER_UTILIZATION = Useless(
    "gpu_memory_utilization", "lowering it makes the KV cache smaller: the opposite of what helps"
)


def larger_kv_cache(case: Case) -> Proposal:
    """Cheapest first: a budget the operator allowed, the sampler's bytes, then the context."""
    return _raise_utilization(case) or _free_sampler_bytes(case) or _shorter_context(case)


def _raise_utilization(case: Case) -> Proposal | None:
    now, allowed = case.now("gpu_memory_utilization"), case.range_of("gpu_memory_utilization")
    fixed = case.now("kv_cache_memory_bytes") is not None
    if not case.has_gpus or fixed or now is None or allowed is None or allowed.high <= now:
        return None
    return Proposal(
        Remedy.RELAUNCH_WITH,
        "the budget leaves too little for the KV cache, and a larger budget is allowed",
        (
            Change(
                "gpu_memory_utilization",
                case.in_force.get("gpu_memory_utilization", now),
                allowed.high,
            ),
        ),
        arithmetic=(f"from {now:g} to the allowed maximum {allowed.high:g}",),
        blind=True,
    )


def _free_sampler_bytes(case: Case) -> Proposal | None:
    """Fewer sequences give the cache what the profiled sampler had reserved, where that is much."""
    sequences, vocab = case.now("max_num_seqs"), case.model.vocab_size
    total, now = case.gpu_total_bytes, case.now("gpu_memory_utilization")
    weights, available = case.figure("weights_bytes"), case.figure("available_bytes")
    needed = case.figure("needed_bytes")
    if not (case.has_gpus and sequences and vocab and total and now):
        return None
    if weights is None or available is None or needed is None:
        return None
    per_row = vocab * bytes_per_entry(case)
    peak = now * total - weights - available - (case.figure("graphs_estimated_bytes") or 0.0)
    sampler = sequences * per_row
    if abs(peak - sampler) > SAMPLER_DOMINATED_FRACTION * sampler + SAMPLER_DOMINATED_BYTES:
        return None
    value = round_down(sequences - (needed - available + SPARE_BYTES) / per_row, 16)
    allowed = case.range_of("max_num_seqs")
    if allowed is None or value < allowed.low:
        return None
    return lower(
        case,
        Target(
            "max_num_seqs",
            value,
            (
                f"the peak {gib(peak)} is the sampler's: {sequences:.0f} rows x {gib(per_row)}",
                f"missing {gib(needed - available)}: {sequences:.0f} -> {value} sequences free it",
            ),
            exact=True,
        ),
        reason="the profiled sampler takes what the KV cache lacks",
        useless=(LOWER_UTILIZATION,),
        options=(),
    )


def _shorter_context(case: Case) -> Proposal:
    reason = "the KV cache cannot hold one request of the full context length"
    options = (
        "allow a shorter context: adapt.max_model_len = { min = ... }",
        "more memory for the KV cache (kv_cache_memory_bytes, or VLLM_CPU_KVCACHE_SPACE)"
        if case.now("kv_cache_memory_bytes") is not None or not case.has_gpus
        else "a higher gpu_memory_utilization (adapt.gpu_memory_utilization.max), or more GPUs",
        'a smaller KV cache entry: kv_cache_dtype = "fp8"',
    )
    useless = (
        LOWER_UTILIZATION,
        Useless("max_num_seqs", "one single request is already too long for the cache"),
    )
    estimate = case.figure("estimated_max_model_len")
    if estimate is None:
        return Proposal(
            Remedy.HOLD,
            "there is no memory left for a KV cache at all",
            useless=(LOWER_UTILIZATION,),
            options=options[1:],
        )
    needed, available = case.figure("needed_bytes"), case.figure("available_bytes")
    lines: tuple[str, ...] = (f"vLLM printed the longest context that fits: {estimate:.0f} tokens",)
    if needed is not None and available is not None:
        lines = (f"one request needs {gib(needed)}, available are {gib(available)}", *lines)
    return lower(
        case,
        Target("max_model_len", estimate, lines, exact=True),
        reason=reason,
        useless=useless,
        options=options,
    )
