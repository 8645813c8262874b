"""Remedies for memory that could not be had: the phase and the site give the direction."""

from __future__ import annotations

from dataclasses import replace

from vllm_warden.core.decide.after_kv import leave_more_room
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Remedy, Useless
from vllm_warden.core.decide.profiled_batch import fitted
from vllm_warden.core.decide.proposal import Proposal, Target, gib, lower, round_down
from vllm_warden.core.decide.sampler import fewer_sequences
from vllm_warden.core.decide.serving import under_load
from vllm_warden.core.decide.useless import PEAK_IGNORES_LENGTH, UTILIZATION_SIZES_KV
from vllm_warden.core.model import PHASES_AFTER_KV, Confidence, Phase, Site

FEWER_ITEMS = ("a lower limit_mm_per_prompt, or smaller images or videos",)
"""The encoder's trial batch has as many items as the batched tokens and this limit allow."""
SMALLER_BATCH = ("a lower max_num_batched_tokens", "a larger tensor_parallel_size")
FEWER_SEQUENCES = ("a lower max_num_seqs, or a lower bound adapt.max_num_seqs.min",)
LARGEST_CAPTURED = 512
BATCHED_TOKENS = Useless(
    "max_num_batched_tokens", "graphs are captured for small batches, whatever the largest batch is"
)


def out_of_memory(case: Case) -> Proposal:
    """Out of memory on a GPU, or of an allocator of the CPU engine in the same phases."""
    proposal = _by_phase(case)
    tried, pieces = case.figure("tried_bytes"), case.figure("reserved_unallocated_bytes")
    if not tried or pieces is None or pieces < tried or not case.has_gpus:
        return proposal
    fragmented = (
        f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: {gib(pieces)} were reserved and free, "
        f"but in pieces smaller than {gib(tried)}"
    )
    return replace(proposal, options=(*proposal.options, fragmented))


def _by_phase(case: Case) -> Proposal:
    phase, site = case.diagnosis.phase, case.diagnosis.site
    if phase in (Phase.INIT_DEVICE, Phase.LOAD):
        on_gpu = phase is Phase.INIT_DEVICE and case.has_gpus
        return _nothing_loaded_yet() if on_gpu else _weights_do_not_fit(case)
    if site in (Site.SAMPLER, Site.POOLER) and phase is Phase.PROFILE:
        return _smaller_sampler(case)
    if phase is Phase.PROFILE:
        return _smaller_batch(case)
    if phase in PHASES_AFTER_KV:
        return _after_kv(case) if case.has_gpus else _host_after_kv(case)
    if phase is Phase.SERVING:
        return under_load(case)
    return Proposal(
        Remedy.RELAUNCH, "memory ran out, but the log does not show in which phase: no knob is sure"
    )


def _after_kv(case: Case) -> Proposal:
    found = case.diagnosis
    if found.site is Site.SAMPLER and found.confidence is Confidence.LIKELY:
        return _sampler_before_or_after_kv(case)
    return leave_more_room(case)


def _nothing_loaded_yet() -> Proposal:
    """A context and NCCL's buffers take hundreds of MiB: only a full GPU has no room for them."""
    return Proposal(
        Remedy.WAIT,
        "nothing of this engine lies on the GPU yet: something else holds its memory, and the "
        "same start may work once that is gone",
        useless=(UTILIZATION_SIZES_KV, PEAK_IGNORES_LENGTH),
        options=("stop what holds the memory",),
    )


def _weights_do_not_fit(case: Case) -> Proposal:
    others = case.diagnosis.figures.get("other_processes")
    needed = case.model.weight_bytes
    arithmetic = (
        () if needed is None else (f"the weights are {gib(needed)} over all GPUs of the engine",)
    )
    if others and case.has_gpus:
        return Proposal(
            Remedy.WAIT,
            "other processes hold memory of this GPU: the same start may work once they are gone",
            useless=(UTILIZATION_SIZES_KV, PEAK_IGNORES_LENGTH),
            arithmetic=arithmetic,
        )
    reason = (
        "the weights do not fit into the GPUs' memory; no setting of the KV cache changes that"
        if case.has_gpus
        else "the weights do not fit into the memory that this engine may use"
    )
    return Proposal(
        Remedy.GIVE_UP,
        reason,
        useless=(
            UTILIZATION_SIZES_KV,
            PEAK_IGNORES_LENGTH,
            Useless("max_num_seqs", "the weights are loaded before any sequence exists"),
            Useless("enable_expert_parallel", "it spreads experts over the same GPUs, adding none"),
        ),
        arithmetic=arithmetic,
        options=(
            "a larger tensor_parallel_size or pipeline_parallel_size, on more GPUs",
            "a quantised checkpoint",
            "cpu_offload_gb, if the host has the memory and the latency is acceptable",
        )
        if case.has_gpus
        else ("a larger memory limit for this instance", "a smaller or quantised model"),
    )


SAMPLER_REASON = (
    "the sampler of the profiling run needs memory for every sequence times the vocabulary"
)


def _smaller_sampler(case: Case) -> Proposal:
    proposal = fitted(case, by_sampler=True, reason=SAMPLER_REASON) if case.has_gpus else None
    if proposal is None:
        return _fewer_sequences(case)
    return replace(_unless_moved(proposal), options=FEWER_SEQUENCES)


def _unless_moved(proposal: Proposal) -> Proposal:
    """Utilization sizes no cache yet; where it moves, it is for the walls after this one."""
    if any(change.setting == "gpu_memory_utilization" for change in proposal.changes):
        return proposal
    return replace(proposal, useless=(UTILIZATION_SIZES_KV, *proposal.useless))


def _fewer_sequences(case: Case) -> Proposal:
    target = fewer_sequences(case)
    useless = (UTILIZATION_SIZES_KV, PEAK_IGNORES_LENGTH)
    reason = SAMPLER_REASON
    if target is None:
        return Proposal(Remedy.HOLD, f"{reason}; max_num_seqs is not known", useless=useless)
    return lower(
        case,
        target,
        reason=reason,
        useless=useless,
        options=FEWER_SEQUENCES,
    )


def _sampler_before_or_after_kv(case: Case) -> Proposal:
    """The same words come from both phases; together both changes help in either."""
    budget, fewer = leave_more_room(case), _fewer_sequences(case)
    if fewer.remedy is not Remedy.RELAUNCH_WITH or budget.remedy is not Remedy.RELAUNCH_WITH:
        return fewer
    return replace(
        fewer,
        reason="the sampler ran out of memory, and the log does not show whether before the KV "
        "cache existed or after: fewer sequences help before, a smaller budget after",
        changes=(*budget.changes[:1], *fewer.changes),
        useless=(PEAK_IGNORES_LENGTH,),
        arithmetic=(*budget.arithmetic, *fewer.arithmetic),
        options=(*budget.options, *fewer.options),
        blind=budget.blind or fewer.blind,
    )


def _smaller_batch(case: Case) -> Proposal:
    useless = (UTILIZATION_SIZES_KV, PEAK_IGNORES_LENGTH)
    reason = "the forward pass of the profiling run does not fit beside the weights"
    if case.diagnosis.site is Site.LORA:
        return Proposal(
            Remedy.HOLD,
            f"{reason}: the {case.diagnosis.site} needs too much",
            useless=useless,
            options=("lower max_loras and max_lora_rank",),
        )
    if case.diagnosis.site is Site.CUDA_GRAPHS:
        return _smaller_graphs(case)
    if case.diagnosis.site is not Site.ENCODER and case.has_gpus:
        proposal = fitted(case, by_sampler=False, reason=reason)
        if proposal is not None:
            return replace(_unless_moved(proposal), options=SMALLER_BATCH)
    tokens = case.now("max_num_batched_tokens")
    sequences = case.now("max_num_seqs") or 0
    if tokens is None:
        return Proposal(Remedy.HOLD, f"{reason}; the batch size is not known", useless=useless)
    half = max(round_down(tokens / 2, 256), sequences)
    lines = (
        f"activations grow with the batched tokens: half of {tokens:.0f} is {half:.0f}"
        + (", not below max_num_seqs" if half == sequences else ""),
    )
    return lower(
        case,
        Target("max_num_batched_tokens", half, lines, exact=False, blind=True),
        reason=reason,
        useless=useless,
        options=(
            *(FEWER_ITEMS if case.diagnosis.site is Site.ENCODER else ()),
            *SMALLER_BATCH,
        ),
    )


def _smaller_graphs(case: Case) -> Proposal:
    """Captured batches end at twice max_num_seqs, and at 512 (vLLM 0.13 and later)."""
    useless = (UTILIZATION_SIZES_KV, PEAK_IGNORES_LENGTH, BATCHED_TOKENS)
    reason = "the trial capture of the largest CUDA graphs does not fit beside the weights"
    options = (
        "fewer or smaller captured sizes (max_cudagraph_capture_size)",
        "enforce_eager = true, at the price of speed",
        "a larger tensor_parallel_size",
    )
    sequences = case.now("max_num_seqs")
    if sequences is None:
        return Proposal(Remedy.HOLD, reason, useless=useless, options=options)
    value = min(sequences, LARGEST_CAPTURED / 2) / 2
    lines = (f"the largest captured batch halves: from {sequences:.0f} to {value:.0f} sequences",)
    target = Target("max_num_seqs", round_down(value, 16), lines, exact=False, blind=True)
    return lower(case, target, reason=reason, useless=useless, options=options)


def _host_after_kv(case: Case) -> Proposal:
    """The CPU engine's counterpart: its KV cache is a fixed number of bytes."""
    reason = "the KV cache and what follows it do not fit into the memory this engine may use"
    now = case.now("kv_cache_memory_bytes")
    options = (
        "a smaller kv_cache_memory_bytes (or VLLM_CPU_KVCACHE_SPACE)",
        "a larger memory limit for this instance",
    )
    if now is None:
        return Proposal(
            Remedy.HOLD,
            f"{reason}; its size is set outside the engine's options",
            useless=(PEAK_IGNORES_LENGTH,),
            options=options,
        )
    half = int(now / 2)
    return lower(
        case,
        Target(
            "kv_cache_memory_bytes",
            half,
            (f"half of the fixed {gib(now)}: how much is missing is not printed",),
            exact=False,
            blind=True,
        ),
        reason=reason,
        useless=(PEAK_IGNORES_LENGTH,),
        options=options,
    )
