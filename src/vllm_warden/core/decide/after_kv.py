"""Running out of memory once the KV cache exists: the budget has to leave more room.

How much is the identity's answer (``budget``). Sequences follow in the same relaunch where the
sampler's trial run had reserved bytes that the smaller cache can use better.
"""

from __future__ import annotations

from dataclasses import replace

from vllm_warden.core.decide import budget as terms
from vllm_warden.core.decide.budget import Budget, fraction_of
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.choice import Choice, Room, choose
from vllm_warden.core.decide.neighbours import waits_for_neighbour
from vllm_warden.core.decide.peak import measured
from vllm_warden.core.decide.proposal import Proposal, Target, changes_to, gib, lower
from vllm_warden.core.decide.request_size import request_of, token_bytes
from vllm_warden.core.decide.useless import CACHE_IGNORES_LENGTH, SEQUENCES_ALONE
from vllm_warden.core.model import MIB, Phase

STEP_BACK_BYTES = 300 * MIB
"""Never above what failed, less this: the same budget would fail the same way."""
BLIND_STEP = 0.05
"""Without numbers; in the same simulation one step of 0.05 cured 96-100 % of these failures."""
REASON = "the KV cache left too little room for what vLLM allocates after it"
OPTIONS = (
    "lower gpu_memory_utilization, or the bound adapt.gpu_memory_utilization.min",
    "free memory held by other processes on these GPUs",
    "capture fewer CUDA graphs (max_cudagraph_capture_size)",
)


def leave_more_room(case: Case) -> Proposal:
    """Lower the budget (utilization, or the fixed KV bytes) by what the numbers ask for."""
    if case.now("kv_cache_memory_bytes") is not None:
        return lower(
            case,
            smaller_kv(case),
            reason=REASON,
            useless=(CACHE_IGNORES_LENGTH,),
            options=OPTIONS,
        )
    neighbour = waits_for_neighbour(case)
    if neighbour is not None:
        return neighbour
    return with_sequences(case, lowered(case, by_identity(case), REASON))


def lowered(case: Case, target: Target, reason: str) -> Proposal:
    """A smaller budget, and what does not help with it."""
    useless = (SEQUENCES_ALONE, CACHE_IGNORES_LENGTH)
    return lower(case, target, reason=reason, useless=useless, options=OPTIONS)


def by_identity(case: Case) -> Target:
    """What utilization may be, by the identity and below all that failed before."""
    now = case.now("gpu_memory_utilization") or 0.0
    free, allocated = case.figure("free_bytes"), case.figure("allocated_bytes")
    total = terms.total_bytes(case)
    if free is None or allocated is None or not total:
        lines: tuple[str, ...] = (
            f"the log has no free and total memory: one step of {BLIND_STEP} from {now:g}",
        )
        return Target(
            "gpu_memory_utilization", round(now - BLIND_STEP, 4), lines, exact=False, blind=True
        )
    found = terms.budget_of(case)
    graphs, is_measured = terms.real_graphs(case)
    outside = terms.unbudgeted(graphs, terms.estimated_graphs(case))
    margin = terms.margin(None if found is None else found.peak)
    usable = terms.usable(free, allocated)
    room = terms.room(usable, outside, margin)
    ceiling = _ceiling(case, now) * total
    if min(room, ceiling) >= now * total:  # what the numbers do not show has failed all the same
        missing = (case.figure("tried_bytes") or 0.0) - free
        ceiling = now * total - max(STEP_BACK_BYTES, missing)
    value = fraction_of(min(room, ceiling), total)
    lines = (
        (
            f"usable by torch: {gib(free)} free + {gib(allocated)} allocated = {gib(usable)} "
            f"of {gib(total)}"
        ),
        *_peak_line(found),
        (
            f"minus CUDA graphs outside the budget {gib(outside)}, margin {gib(margin)}"
            f" = {gib(room)} for the budget; it was {gib(now * total)}"
        ),
        f"{gib(min(room, ceiling))} / {gib(total)} = {value:.4f}",
    )
    return Target("gpu_memory_utilization", value, lines, exact=is_measured)


def _peak_line(found: Budget | None) -> tuple[str, ...]:
    if found is None:
        return ()
    return (
        (
            f"measured peak: budget {gib(found.requested)} - weights {gib(found.weights)} - KV "
            f"cache {gib(found.available)} - estimated graphs {gib(found.estimate)} = "
            f"{gib(found.peak)}"
        ),
    )


def _ceiling(case: Case, now: float) -> float:
    """In parts of the GPU. While the cache is allocated it is others that grew: no measure."""
    total = terms.total_bytes(case) or 1.0
    if case.diagnosis.phase is Phase.KV_ALLOC and case.figure("other_processes_bytes"):
        return now
    worst = terms.least_known_bad(case)
    return min(now, now if worst is None else worst) - STEP_BACK_BYTES / total


def with_sequences(case: Case, proposal: Proposal) -> Proposal:
    """Let the smaller budget be shared anew between cache and peak, where that is worth it."""
    found = terms.budget_of(case)
    values = {change.setting: change.after for change in proposal.changes}
    value = values.get("gpu_memory_utilization")
    if found is None or not isinstance(value, float):
        return proposal
    peak = measured(case, found.peak)
    pool = value * found.total - found.weights - found.estimate
    expected = replace(proposal, kv_bytes_after=pool - found.peak)
    if peak is None:
        return expected
    choice = choose(case, Room(pool, request_of(case), token_bytes(case)), peak)
    changes = changes_to(
        case, {"max_num_seqs": choice.sequences, "max_num_batched_tokens": choice.tokens}
    )
    if not changes:
        return expected
    return replace(
        proposal,
        changes=(*proposal.changes, *changes),
        arithmetic=(*proposal.arithmetic, *_shared(pool, choice)),
        kv_bytes_after=choice.cache,
    )


def _shared(pool: float, choice: Choice) -> tuple[str, ...]:
    return (
        (
            f"cache and profiled batch share {gib(pool)}: with {choice.sequences} sequences "
            f"and {choice.tokens} batched tokens the batch takes {gib(choice.peak)}, the cache "
            f"{gib(choice.cache)}"
        ),
    )


def smaller_kv(case: Case) -> Target:
    """With a fixed KV size nothing flows back to the cache, so the shortfall itself is taken."""
    now = case.now("kv_cache_memory_bytes") or 0.0
    tried, free = case.figure("tried_bytes"), case.figure("free_bytes")
    if tried is None or free is None:
        lines: tuple[str, ...] = (
            f"no free memory is known: three quarters of the fixed {gib(now)}",
        )
        return Target("kv_cache_memory_bytes", int(now * 3 / 4), lines, exact=False, blind=True)
    missing = max(0.0, tried - free) + terms.MARGIN_UNKNOWN_PEAK_BYTES
    lines = (
        (
            f"tried {gib(tried)} with {gib(free)} free; with a margin of "
            f"{gib(terms.MARGIN_UNKNOWN_PEAK_BYTES)} at least {gib(missing)} are missing"
        ),
        f"{gib(now)} - {gib(missing)} = {gib(now - missing)}",
    )
    return Target("kv_cache_memory_bytes", int(now - missing), lines, exact=False)
