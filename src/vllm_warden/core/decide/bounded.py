"""Keeps every change within what the operator allows, whatever rule proposed it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Change, Remedy
from vllm_warden.core.decide.knobs import MOVABLE, number
from vllm_warden.core.decide.proposal import Proposal


def within_bounds(case: Case, proposal: Proposal) -> Proposal:
    """Nothing above what is allowed: an engine's own default may be, where nobody asked for less.

    Lower than what was computed to fit, fits too; what would have to be too low is a hold.
    """
    changes = tuple(_bounded(case, change) for change in proposal.changes)
    why_not = next(filter(None, (_fault(case, change) for change in changes)), None)
    why_not = why_not or _tokens_below_sequences(case, proposal.changes, changes)
    if why_not is not None:
        reason = f"{proposal.reason}; {why_not}"
        return replace(proposal, remedy=Remedy.HOLD, changes=(), reason=reason)
    return proposal if changes == proposal.changes else replace(proposal, changes=changes)


def _bounded(case: Case, change: Change) -> Change:
    allowed, after = case.range_of(change.setting), change.after
    if allowed is None or not isinstance(after, int | float) or after <= allowed.high:
        return change
    is_count = isinstance(after, int)
    return replace(change, after=int(allowed.high) if is_count else allowed.high)


def _fault(case: Case, change: Change) -> str | None:
    name, after = change.setting, number(change.after)
    if name not in MOVABLE or after is None:
        return None
    allowed = case.range_of(name)
    if allowed is None:
        return f"{name} would have to be {change.after}, and adapt.{name} allows no change"
    if after >= allowed.low:
        return None
    return (
        f"{name} would have to be {change.after}, and at least {allowed.low:g} is allowed "
        f"(adapt.{name}.min)"
    )


def _tokens_below_sequences(
    case: Case, before: Sequence[Change], after: Sequence[Change]
) -> str | None:
    """The engine refuses it (vLLM 0.32, SchedulerConfig), so a bound must not bring it about."""
    values = {change.setting: number(change.after) for change in after}
    tokens = values.get("max_num_batched_tokens")
    sequences = values.get("max_num_seqs", case.now("max_num_seqs"))
    if tuple(before) == tuple(after) or tokens is None or sequences is None or tokens >= sequences:
        return None
    return (
        f"max_num_batched_tokens may be {tokens:g} at most (adapt.max_num_batched_tokens.max), "
        f"and {sequences:g} sequences need as many tokens"
    )
