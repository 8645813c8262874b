"""The KV cache came out too small: lowering utilization would make it smaller still."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_warden.core.decide import budget as terms
from vllm_warden.core.decide.after_kv import STEP_BACK_BYTES
from vllm_warden.core.decide.budget import Budget, fraction_of
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.choice import (
    SEQUENCES_STEP,
    Choice,
    Room,
    choose,
    least,
    lowest,
    stepped,
)
from vllm_warden.core.decide.decision import Change, Remedy, Useless
from vllm_warden.core.decide.peak import Peak, measured
from vllm_warden.core.decide.proposal import Proposal, Target, changes_to, gib, lower
from vllm_warden.core.decide.request_size import request_of, token_bytes
from vllm_warden.core.decide.useless import LOWER_UTILIZATION
from vllm_warden.core.model import GIB

BOLD_GRAPHS_BYTES = 0.5 * GIB
"""A careful guess says that nothing fits: small graphs are possible too."""
LAST_TRY_FRACTION = 0.02
"""Short by less of the GPU, the least demanding settings are worth one try: figures are rounded."""


def larger_kv_cache(case: Case) -> Proposal:
    """A budget the operator allowed, bytes of sampler and forward pass, then the context."""
    if case.figure("mamba_blocks") is not None:
        return _fewer_states(case)
    fixed = case.now("kv_cache_memory_bytes") is not None
    found = None if fixed or not case.has_gpus else terms.budget_of(case)
    peak = None if found is None else measured(case, found.peak)
    if found is None or peak is None:
        return _raise_utilization(case) or _shorter_context(case)
    for requested in _budgets(case, found):
        room = _room(case, found, requested)
        proposal = _proposed(case, found, peak, room, choose(case, room, peak))
        if proposal is not None:
            return proposal
    return _last_try(case, found, peak) or _shorter_context(case)


def _room(case: Case, found: Budget, requested: float) -> Room:
    pool = requested - found.weights - found.estimate
    return Room(pool, request_of(case), token_bytes(case))


def _budgets(case: Case, found: Budget) -> Iterator[float]:
    """As far as the identity lets it go, then with less caution; never below what it is."""
    known, allowed = terms.usable_before(case), case.range_of("gpu_memory_utilization")
    if allowed is None or known is None or allowed.high * found.total <= found.requested:
        yield found.requested
        return
    usable, unread = known
    highest = allowed.high * found.total
    bad = terms.least_known_bad(case)
    if bad is not None:
        highest = min(highest, bad * found.total - STEP_BACK_BYTES)
    outside = terms.assumed_outside(case)
    margin = terms.margin(found.peak)
    for graphs, kept in (
        (outside, margin + unread),
        (min(outside, BOLD_GRAPHS_BYTES), margin),
    ):
        safe = terms.room(usable, graphs, kept)
        value = fraction_of(min(highest, safe), found.total)
        yield max(found.requested, value * found.total)


def _proposed(
    case: Case, found: Budget, peak: Peak, room: Room, choice: Choice, *, reason: str = ""
) -> Proposal | None:
    """The relaunch with these settings, None where they do not fit or change nothing."""
    if not reason and not choice.fits:
        return None
    requested = room.pool + found.weights + found.estimate
    values: dict[str, float] = {}
    if requested > found.requested:
        values["gpu_memory_utilization"] = round(requested / found.total, 4)
    values |= {"max_num_seqs": choice.sequences, "max_num_batched_tokens": choice.tokens}
    if choice.length is not None:
        values["max_model_len"] = choice.length
    changes = changes_to(case, values)
    if not changes:
        return None
    return Proposal(
        Remedy.RELAUNCH_WITH,
        reason or _reason(changes),
        changes,
        useless=() if "gpu_memory_utilization" in values else (LOWER_UTILIZATION,),
        arithmetic=_lines(case, found, peak, room, choice),
        options=_options(case),
        kv_bytes_after=choice.cache,
    )


def _reason(changes: tuple[Change, ...]) -> str:
    if changes[0].setting == "gpu_memory_utilization":
        return "the budget leaves too little for the KV cache, and a larger budget is allowed"
    return "the profiled batch takes what the KV cache lacks"


def _lines(case: Case, found: Budget, peak: Peak, room: Room, choice: Choice) -> tuple[str, ...]:
    owner = "the sampler" if peak.is_samplers else "the forward pass"
    request = request_of(case)
    return (
        (
            f"measured peak: budget {gib(found.requested)} - weights {gib(found.weights)} - KV "
            f"cache {gib(found.available)} - estimated graphs {gib(found.estimate)} = "
            f"{gib(found.peak)}, the size of {owner}"
        ),
        (
            f"one request needs {gib(request)}, available are {gib(found.available)}; cache and "
            f"profiled batch may share {gib(room.pool)}, so the batch may take "
            f"{gib(choice.peak_most)}"
        ),
        (
            f"with {choice.sequences} sequences and {choice.tokens} batched tokens it takes at "
            f"most {gib(choice.peak)}, and the cache gets {gib(choice.cache)}"
        ),
    )


def _last_try(case: Case, found: Budget, peak: Peak) -> Proposal | None:
    """The least demanding settings, once, where the prediction is only a little short."""
    requested = list(_budgets(case, found))[-1]
    room = _room(case, found, requested)
    choice = least(case, room, peak)
    if choice.peak - choice.peak_most > LAST_TRY_FRACTION * found.total:
        return None
    reason = "by the figures the KV cache stays a little too small; the least demanding settings"
    return _proposed(case, found, peak, room, choice, reason=f"{reason} are worth one try")


def _fewer_states(case: Case) -> Proposal:
    """Each sequence needs a block of state; vLLM prints how many there are."""
    blocks = case.figure("mamba_blocks") or 0.0
    now = case.now("max_num_seqs") or case.figure("max_num_seqs") or blocks
    reason = "the state of each sequence needs a block of its own, and there are too few"
    lines = (f"vLLM printed {blocks:.0f} blocks for {now:.0f} sequences",)
    low = lowest(case, "max_num_seqs", now)
    step = SEQUENCES_STEP if blocks >= 4 * SEQUENCES_STEP else 1
    if blocks < low:
        raised = _raise_utilization(case)
        if raised is not None:
            return raised
    value = stepped(blocks, now, min(low, blocks), step)
    return lower(
        case,
        Target("max_num_seqs", value, lines, exact=True),
        reason=reason,
        useless=(LOWER_UTILIZATION,),
        options=("a higher gpu_memory_utilization (adapt.gpu_memory_utilization.max)",),
    )


def _raise_utilization(case: Case) -> Proposal | None:
    """Without figures: as far as the operator allowed."""
    now, allowed = case.now("gpu_memory_utilization"), case.range_of("gpu_memory_utilization")
    fixed = case.now("kv_cache_memory_bytes") is not None
    if not case.has_gpus or fixed or now is None or allowed is None or allowed.high <= now:
        return None
    return Proposal(
        Remedy.RELAUNCH_WITH,
        "the budget leaves too little for the KV cache, and a larger budget is allowed",
        changes_to(case, {"gpu_memory_utilization": allowed.high}),
        arithmetic=(f"from {now:g} to the allowed maximum {allowed.high:g}",),
        blind=True,
    )


def _options(case: Case) -> tuple[str, ...]:
    return (
        "allow a shorter context: adapt.max_model_len = { min = ... }",
        "more memory for the KV cache (kv_cache_memory_bytes, or VLLM_CPU_KVCACHE_SPACE)"
        if case.now("kv_cache_memory_bytes") is not None or not case.has_gpus
        else "a higher gpu_memory_utilization (adapt.gpu_memory_utilization.max), or more GPUs",
        'a smaller KV cache entry: kv_cache_dtype = "fp8"',
    )


def _shorter_context(case: Case) -> Proposal:
    reason = "the KV cache cannot hold one request of the full context length"
    options = _options(case)
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
