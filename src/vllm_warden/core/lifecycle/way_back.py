"""Which settings come after a death: back from a failed trial, or to the last proven ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vllm_warden.core.decide.decision import Change, Decision, Remedy
from vllm_warden.core.decide.envelope import Envelope, note_bad
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.lifecycle.states import Attempt, Instance
from vllm_warden.core.lifecycle.steps import with_lesson
from vllm_warden.core.lifecycle.trial import TrialKind
from vllm_warden.core.model import Failure, Mode, SettingValue

SETTINGS_AT_FAULT = frozenset(
    {Failure.GPU_OUT_OF_MEMORY, Failure.KV_CACHE_TOO_SMALL, Failure.HOST_OUT_OF_MEMORY}
)


@dataclass(frozen=True, slots=True)
class WayBack:
    """The settings to go back to, and what is known after the trial; ``told`` is it in short."""

    told: str
    decision: Decision
    changes: Mapping[str, SettingValue]
    envelope: Envelope


def are_settings_at_fault(diagnosis: Diagnosis, entry: LedgerEntry) -> bool:
    """The same settings would meet the same end at the next start."""
    at_start = not entry.was_ready and not diagnosis.incomplete
    return at_start and diagnosis.failure in SETTINGS_AT_FAULT


def way_back(
    instance: Instance, attempt: Attempt, diagnosis: Diagnosis, entry: LedgerEntry
) -> WayBack | None:
    """None where the attempt was no trial, has lasted, or has nothing else to go back to."""
    trial = attempt.trial
    if trial is None or instance.spec.adapt.mode is Mode.OBSERVE:
        return None
    if entry.after_soak and trial.kind is TrialKind.CAPACITY:
        return None
    envelope = instance.envelope
    if are_settings_at_fault(diagnosis, entry):
        envelope = note_bad(envelope, attempt.changes)
    changes = with_lesson(replace(instance, envelope=envelope)).changes
    if dict(changes) == dict(attempt.changes):
        return None
    tried = "the asked settings" if trial.kind is TrialKind.CAPACITY else "the given settings"
    back = "the learned settings" if changes else "the asked settings"
    what = diagnosis.summary or str(diagnosis.failure)
    reason = f"{tried}, tried once for {trial.by}, did not last ({what}): back to {back}"
    moves = _moves(instance, attempt, changes)
    remedy = Remedy.RELAUNCH_WITH if moves else Remedy.RELAUNCH
    told = f"the trial did not last: back to {back}"
    return WayBack(told, Decision(remedy, reason, moves), changes, envelope)


def to_last_proven(
    instance: Instance, attempt: Attempt, decision: Decision
) -> tuple[Decision, Mapping[str, SettingValue]]:
    """What an unchanged relaunch after a crash runs with: as a boot would, not as it crashed.

    That is the last proven settings; while none is proven, the last that became ready; never
    known-bad ones. Beside a neighbour it stays with what was fitted there: the gate would wait
    for half an hour first.
    """
    if attempt.beside:
        return decision, attempt.changes
    changes = with_lesson(instance).changes
    if dict(changes) == dict(attempt.changes):
        return decision, changes
    proven = instance.envelope.proven
    which = "proven" if proven is not None and dict(proven) == dict(changes) else "learned"
    if not changes and which == "learned":
        which = "asked"
    moves = _moves(instance, attempt, changes)
    if not moves:
        return decision, changes
    remedy = Remedy.RELAUNCH_WITH if decision.remedy is Remedy.RELAUNCH else decision.remedy
    reason = f"{decision.reason}; back to the {which} settings, as it ran with others"
    return replace(decision, remedy=remedy, reason=reason, changes=moves), changes


def _moves(
    instance: Instance, attempt: Attempt, changes: Mapping[str, SettingValue]
) -> tuple[Change, ...]:
    """From the attempt's settings to the asked ones with these changes."""
    after = {**instance.asked, **changes}
    return tuple(
        Change(name, attempt.settings.get(name), after.get(name))
        for name in dict.fromkeys((*attempt.settings, *changes))
        if attempt.settings.get(name) != after.get(name)
    )
