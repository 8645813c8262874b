"""Running out of memory under load: the budget's fault, or more than profiling had measured."""

from __future__ import annotations

from dataclasses import replace

from vllm_warden.core.decide import budget as terms
from vllm_warden.core.decide.after_kv import (
    by_identity,
    leave_more_room,
    with_sequences,
)
from vllm_warden.core.decide.budget import Budget, fraction_of
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.neighbours import waits_for_neighbour
from vllm_warden.core.decide.observation import DAY_SECONDS, Observation
from vllm_warden.core.decide.proposal import Proposal, Target, gib, lower
from vllm_warden.core.model import GIB, Phase

STEP_FRACTION = 0.02
MARGIN_BYTES = 0.5 * GIB
BEYOND_FRACTION = 1.05
BEYOND_BYTES = 0.1 * GIB
"""A batch that takes more than the profiled peak and this is one that profiling never saw."""


def under_load(case: Case) -> Proposal:
    """The first one after the soak relaunches unchanged; a second within a day may adapt."""
    if (case.entry.after_soak and not _again(case)) or not case.has_gpus:
        return Proposal(
            Remedy.RELAUNCH, "the first memory failure under load: these settings served before"
        )
    if case.now("gpu_memory_utilization") is None:
        return Proposal(Remedy.RELAUNCH, "memory ran out under load; the budget is not known")
    neighbour = waits_for_neighbour(case)
    if neighbour is not None:
        return neighbour
    found = terms.budget_of(case)
    if found is not None and not _is_beyond_profile(case, found):
        proposal = leave_more_room(case)
        reason = "a full batch does not fit beside the budget: the KV cache left too little room"
        return replace(proposal, reason=proposal.reason.replace(_PLAIN, reason))
    return _stepped(case, found)


_PLAIN = "the KV cache left too little room for what vLLM allocates after it"


def _again(case: Case) -> bool:
    """A memory failure under load within the last day; observations outlive a soak."""
    now = case.entry.at_seconds
    deaths: tuple[LedgerEntry | Observation, ...] = (*case.ledger, *case.observations)
    return any(
        one.failure is case.diagnosis.failure
        and one.phase is Phase.SERVING
        and now - one.at_seconds <= DAY_SECONDS
        for one in deaths
    )


def _is_beyond_profile(case: Case, found: Budget) -> bool:
    allocated, tried = case.figure("allocated_bytes"), case.figure("tried_bytes")
    if allocated is None or tried is None:
        return True
    graphs, _ = terms.real_graphs(case)
    batch = allocated - found.weights - found.available - graphs + tried
    return batch > BEYOND_FRACTION * found.peak + BEYOND_BYTES


def _stepped(case: Case, found: Budget | None) -> Proposal:
    """What was missing and half a GiB, at least 2 % of the GPU, doubled each time."""
    now, total = case.now("gpu_memory_utilization") or 0.0, terms.total_bytes(case)
    tried, free = case.figure("tried_bytes"), case.figure("free_bytes")
    blind = not total or tried is None or free is None
    if not total or tried is None or free is None:
        step = STEP_FRACTION
    else:
        step = max(missing(tried, free) / total, STEP_FRACTION)
    doubled = sum(
        one.changed
        and one.phase is Phase.SERVING
        and case.entry.at_seconds - one.at_seconds <= DAY_SECONDS
        for one in case.observations
    )
    step *= 2**doubled
    value = fraction_of(now - step, 1.0)
    lines: tuple[str, ...] = (
        f"under load {step * 100:.1f} % of the GPU were missing: {now:g} - {step:.4f}",
    )
    if total and tried is not None and free is not None:
        lines = (
            (
                f"tried {gib(tried)} with {gib(free)} free; with {gib(MARGIN_BYTES)} more, at "
                f"least {STEP_FRACTION:.0%} of the GPU{', doubled' * doubled}: {gib(step * total)}"
            ),
            *lines,
        )
    if found is not None:
        value = min(value, max(by_identity(case).value, now - 2 * step))
    target = Target("gpu_memory_utilization", value, lines, exact=False, blind=blind)
    proposal = lower(
        case,
        target,
        reason="memory ran out under load, beyond what profiling had measured",
        useless=(),
        options=("a lower gpu_memory_utilization", "limits on logprobs and images per request"),
    )
    return with_sequences(case, proposal)


def missing(tried: float, free: float) -> float:
    """The next chunk's missing part and half a GiB for what would have come after it."""
    return tried - free + MARGIN_BYTES
