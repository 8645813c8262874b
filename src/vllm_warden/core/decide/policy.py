"""The order in which a decision is made; the first rule that speaks wins and gives the reason.

Remedy for the failure -> known-bad settings -> words that anybody may have printed -> the
operator's mode -> incomplete evidence -> price -> restart budgets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vllm_warden.core.decide.bounded import within_bounds
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Change, Decision, Remedy
from vllm_warden.core.decide.ledger import judge_budget
from vllm_warden.core.decide.plausible import plausible
from vllm_warden.core.decide.price import price_of
from vllm_warden.core.decide.proposal import Proposal
from vllm_warden.core.decide.remedies import REMEDIES
from vllm_warden.core.decide.ways import with_ways_out
from vllm_warden.core.model import Confidence, Mode, SettingValue

_VERBS = {Remedy.GIVE_UP: "give up", Remedy.HOLD: "hold"}
STARTS_AGAIN = frozenset({Remedy.RELAUNCH, Remedy.RELAUNCH_WITH, Remedy.WAIT})


def decide(case: Case) -> Decision:
    """One decision for one death. Never raises; total over every failure."""
    case = _with_plausible_figures(case)
    proposal = within_bounds(case, REMEDIES[case.diagnosis.failure](case))
    if proposal.remedy is Remedy.RELAUNCH_WITH:
        proposal = replace(proposal, price=price_of(case, proposal))
    for rule in (_in_own_words, _within_mode, _with_complete_evidence, _within_price):
        proposal = rule(case, proposal)
    return with_ways_out(case, _within_budget(case, proposal))


def _with_plausible_figures(case: Case) -> Case:
    figures = plausible(case.diagnosis.figures)
    seen = [replace(each, figures=plausible(each.figures)) for each in case.observations]
    return replace(case, diagnosis=replace(case.diagnosis, figures=figures), observations=seen)


def _in_own_words(case: Case, proposal: Proposal) -> Proposal:
    """Words that anything may have printed end no service: only where they come again."""
    ends = proposal.remedy in (Remedy.GIVE_UP, Remedy.HOLD)
    if not ends or not case.diagnosis.overheard:
        return proposal
    if any(entry.failure is case.diagnosis.failure for entry in case.ledger):
        return proposal
    return replace(
        proposal,
        remedy=Remedy.RELAUNCH,
        reason="what proves it is no record of the engine's: one unchanged try shows whether it "
        f"comes again; then {_VERBS[proposal.remedy]}: {proposal.reason}",
    )


def _within_mode(case: Case, proposal: Proposal) -> Proposal:
    mode = case.adapt.mode
    if mode is Mode.OBSERVE and proposal.remedy in STARTS_AGAIN:
        return replace(
            proposal,
            remedy=Remedy.HOLD,
            changes=(),
            reason=f'mode is "observe"; would {would(proposal)}: {proposal.reason}',
        )
    if mode is Mode.RESTART and proposal.remedy is Remedy.RELAUNCH_WITH:
        return replace(
            proposal,
            remedy=Remedy.RELAUNCH,
            changes=(),
            price=None,
            reason=f'mode is "restart" and moves no knob; "adapt" would {would(proposal)}: '
            f"{proposal.reason}",
        )
    return proposal


def _with_complete_evidence(case: Case, proposal: Proposal) -> Proposal:
    if proposal.remedy is not Remedy.RELAUNCH_WITH:
        return proposal
    if case.diagnosis.incomplete:
        why = "the log of this death is incomplete, and incomplete evidence moves no knob"
    elif case.diagnosis.overheard:
        why = (
            "what proves it is no record of the engine's, and what anything may print moves no knob"
        )
    elif case.diagnosis.confidence is Confidence.EXTRAPOLATED and proposal.blind:
        why = "the cause is only extrapolated, and no figure of the log says how far to go"
    else:
        return proposal
    return replace(
        proposal,
        remedy=Remedy.RELAUNCH,
        changes=(),
        price=None,
        reason=f"{why}; would otherwise {would(proposal)}: {proposal.reason}",
    )


def _within_price(case: Case, proposal: Proposal) -> Proposal:
    price, least = proposal.price, case.adapt.min_concurrency_fraction
    if proposal.remedy is not Remedy.RELAUNCH_WITH or price is None:
        return proposal
    if price.concurrency_fraction is None or price.concurrency_fraction >= least:
        return proposal
    return replace(
        proposal,
        remedy=Remedy.HOLD,
        changes=(),
        reason=f"{proposal.reason}; to {would(proposal)} would leave "
        f"{price.concurrency_fraction:.0%} of the usable concurrency, and at least {least:.0%} "
        "is asked (adapt.min_concurrency_fraction)",
    )


def _within_budget(case: Case, proposal: Proposal) -> Decision:
    delay = 0.0
    if proposal.remedy in STARTS_AGAIN:
        verdict = judge_budget(
            case.ledger,
            case.entry,
            case.restart,
            changed=proposal.remedy is Remedy.RELAUNCH_WITH,
            jitter_fraction=case.jitter_fraction,
        )
        if verdict.spent is not None:
            proposal = replace(
                proposal,
                remedy=Remedy.HOLD,
                changes=(),
                reason=f"the restart budget is spent ({verdict.spent}); last: {proposal.reason}",
            )
        delay = verdict.delay_seconds
    return Decision(
        remedy=proposal.remedy,
        reason=proposal.reason,
        changes=proposal.changes,
        useless=proposal.useless,
        arithmetic=proposal.arithmetic,
        options=proposal.options,
        price=proposal.price,
        delay_seconds=delay,
    )


def would(proposal: Proposal) -> str:
    """What a proposal does, as a clause: ``relaunch with max_num_seqs 1024 -> 256``."""
    if proposal.remedy is not Remedy.RELAUNCH_WITH:
        return "relaunch unchanged"
    return f"relaunch with {changes_in_words(proposal.changes)}"


def changes_in_words(changes: Iterable[Change]) -> str:
    """``max_num_seqs 1024 -> 256, block_size 32 -> default``."""
    shown = ((one.setting, *map(_or_default, (one.before, one.after))) for one in changes)
    return ", ".join(f"{setting} {before} -> {after}" for setting, before, after in shown)


def _or_default(value: SettingValue | None) -> SettingValue:
    return "default" if value is None else value
