"""From an end that nobody asked for to what is done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Decision, Remedy
from vllm_warden.core.decide.document import change_document
from vllm_warden.core.decide.envelope import note_bad, note_decided
from vllm_warden.core.decide.knobs import effective
from vllm_warden.core.decide.ledger import LedgerEntry, with_entry
from vllm_warden.core.decide.observation import (
    MEMORY_FAILURES,
    OBSERVATIONS_MAX,
    Observation,
)
from vllm_warden.core.decide.policy import changes_in_words, decide
from vllm_warden.core.decide.remedies import COMPILER_FAILED
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.lifecycle.effects import (
    Announce,
    CollectEvidence,
    Effect,
    RecordIncident,
    ReleaseAttempt,
    ResolveIncident,
)
from vllm_warden.core.lifecycle.events import (
    AttemptReleased,
    EngineLost,
    EvidenceGathered,
    ProcessExited,
    Stalled,
    TimerElapsed,
)
from vllm_warden.core.lifecycle.probe import Probe
from vllm_warden.core.lifecycle.states import Attempt, Instance, State
from vllm_warden.core.lifecycle.steps import (
    Step,
    after_attempt,
    backing_off,
    current,
    failed,
    held,
    moved,
    waiting,
    with_lesson,
    with_timer,
)
from vllm_warden.core.lifecycle.way_back import (
    SETTINGS_AT_FAULT,
    WayBack,
    are_settings_at_fault,
    to_last_proven,
    way_back,
)
from vllm_warden.core.model import Failure, SettingValue

LAST_WORDS_SECONDS = 2.0
"""After an engine process is lost the others still log why; vLLM's parent may take ten more."""


def exited(instance: Instance, event: ProcessExited) -> Step:
    """The parent is gone, with whatever status: zero is a crash too when nobody asked."""
    attempt = replace(current(instance), exit_status=event.status)
    text = f"attempt {attempt.number} ended by itself ({_status_text(event.status)})"
    dying = replace(moved(instance, State.DIAGNOSING, event.at_seconds, text), attempt=attempt)
    return dying, (Announce("engine-exited", text), CollectEvidence(attempt.number))


def engine_lost(instance: Instance, event: EngineLost) -> Step:
    """A live parent without its engine is dead; give the log a moment for its last words."""
    before = current(instance)
    attempt = replace(before, lost=(*before.lost, event.process))
    text = f"attempt {attempt.number} lost {event.process.title} (pid {event.process.pid})"
    dying = replace(moved(instance, State.DIAGNOSING, event.at_seconds, text), attempt=attempt)
    armed, timer = with_timer(dying, LAST_WORDS_SECONDS)
    return armed, (Announce("engine-exited", text), timer)


def another_lost(instance: Instance, event: EngineLost) -> Step:
    before = current(instance)
    return replace(instance, attempt=replace(before, lost=(*before.lost, event.process))), ()


def stalled(instance: Instance, event: Stalled) -> Step:
    attempt = replace(current(instance), stalled_seconds=event.seconds)
    text = f"attempt {attempt.number} made no progress for {event.seconds:.0f} s"
    dying = replace(moved(instance, State.DIAGNOSING, event.at_seconds, text), attempt=attempt)
    return dying, (Announce("engine-exited", text), CollectEvidence(attempt.number))


def exited_while_diagnosing(instance: Instance, event: ProcessExited) -> Step:
    """Within the moment for last words the parent ended too: no need to wait longer."""
    attempt = replace(current(instance), exit_status=event.status)
    known = replace(instance, attempt=attempt)
    if instance.timer is None:
        return known, ()
    return replace(known, timer=None), (CollectEvidence(attempt.number),)


def last_words_elapsed(instance: Instance, _: TimerElapsed) -> Step:
    return replace(instance, timer=None), (CollectEvidence(current(instance).number),)


def exited_while_stopping(instance: Instance, event: ProcessExited) -> Step:
    attempt = replace(current(instance), exit_status=event.status)
    return replace(instance, attempt=attempt, timer=None), (ReleaseAttempt(attempt.number),)


def released(instance: Instance, event: AttemptReleased) -> Step:
    """A stop is complete; a restart goes on."""
    remains = f"; {event.remains}" if event.remains else ""
    if instance.held_by is not None:
        reason = f"hold asked by {instance.held_by}{remains}"
        return held(after_attempt(instance), event.at_seconds, reason)
    if instance.wanted:
        return waiting(after_attempt(instance), event.at_seconds, "waiting for the gate")
    reason = instance.reason.replace("stop asked", "stopped").replace("restart asked", "stopped")
    reason += remains
    stopped = moved(after_attempt(instance), State.STOPPED, event.at_seconds, reason)
    effects: tuple[Effect, ...] = (Announce("instance-stopped", reason),)
    if instance.incident_open:
        return replace(stopped, incident_open=False), (ResolveIncident(reason), *effects)
    return stopped, effects


def treat(instance: Instance, event: EvidenceGathered) -> Step:
    """Diagnose, decide, remember, and go on accordingly."""
    attempt = current(instance)
    diagnosis = _as_stalled(attempt, event.diagnosis)
    entry = LedgerEntry(
        event.at_seconds,
        diagnosis.failure,
        diagnosis.phase,
        was_ready=attempt.ready_since_seconds is not None,
        after_soak=_lasted(instance, attempt, event.at_seconds),
    )
    back = way_back(instance, attempt, diagnosis, entry)
    if back is not None:
        return _gone_back(instance, attempt, (diagnosis, back), entry, event)
    decision = decide(_case(instance, attempt, diagnosis, entry, event))
    changed = decision.remedy is Remedy.RELAUNCH_WITH
    decision, changes = _after(instance, attempt, decision, entry)
    learned = _learned(instance, attempt, diagnosis, entry, changed=changed)
    treated = replace(
        instance,
        diagnosis=diagnosis,
        decision=decision,
        incident_open=True,
        ledger=with_entry(instance.ledger, replace(entry, changed=changed)),
        observations=learned,
        changes=changes,
        caches_suspect=_suspects_caches(instance, diagnosis, entry),
    )
    blamed = changed and diagnosis.failure in SETTINGS_AT_FAULT
    if blamed or are_settings_at_fault(diagnosis, entry):
        treated = replace(treated, envelope=note_bad(treated.envelope, attempt.changes))
    if changed:
        version, free = instance.engine.version, attempt.free_at_launch_bytes
        noted = note_decided(treated.envelope, changes, version, free)
        treated = replace(treated, envelope=noted)
    going_on, effects = _go_on(treated, decision, event.at_seconds)
    record = RecordIncident(
        attempt.number,
        diagnosis,
        decision,
        event.evidence,
        attempt.settings,
        {**instance.asked, **changes} if decision.changes else None,
        continues=_continues(instance, entry),
    )
    return going_on, (record, *_announcements(diagnosis, decision), *effects)


def _gone_back(
    instance: Instance,
    attempt: Attempt,
    judged: tuple[Diagnosis, WayBack],
    entry: LedgerEntry,
    event: EvidenceGathered,
) -> Step:
    """A trial has failed: the learned settings at once, and only a crash counts in the budget."""
    (diagnosis, back), decision = judged, judged[1].decision
    ledger = instance.ledger
    if entry.after_soak:
        ledger = with_entry(ledger, replace(entry, changed=True))
    treated = replace(
        instance,
        diagnosis=diagnosis,
        decision=decision,
        incident_open=True,
        ledger=ledger,
        observations=_learned(instance, attempt, diagnosis, entry, changed=False),
        changes=back.changes,
        envelope=back.envelope,
    )
    going_on, effects = _go_on(treated, decision, event.at_seconds)
    record = RecordIncident(
        attempt.number,
        diagnosis,
        decision,
        event.evidence,
        attempt.settings,
        {**instance.asked, **back.changes},
        continues=_continues(instance, entry),
    )
    told = Announce("trial-failed", back.told, dict(back.changes))
    return going_on, (record, *_announcements(diagnosis, decision), told, *effects)


def _continues(instance: Instance, entry: LedgerEntry) -> bool:
    """A failure before anything has outlived the soak belongs to the incident before it."""
    return instance.incident_open and not entry.after_soak


def _lasted(instance: Instance, attempt: Attempt, at_seconds: float) -> bool:
    """Proven, or ready for as long: an idle instance never gathers the soak's requests.

    What dies of the load probe has not lasted: the probe is what the soak waited for.
    """
    since = attempt.ready_since_seconds
    if attempt.soaked or since is None or attempt.probe is Probe.SENT:
        return attempt.soaked
    return at_seconds - since >= instance.spec.restart.soak_seconds


def _learned(
    instance: Instance,
    attempt: Attempt,
    diagnosis: Diagnosis,
    entry: LedgerEntry,
    *,
    changed: bool,
) -> tuple[Observation, ...]:
    """What this death adds to what is known of the memory; incomplete evidence adds nothing."""
    if diagnosis.failure not in MEMORY_FAILURES or diagnosis.incomplete:
        return instance.observations
    settings = effective(attempt.settings, instance.defaults, instance.model)
    new = Observation(
        entry.at_seconds, diagnosis.failure, diagnosis.phase, settings, diagnosis.figures, changed
    )
    return (*instance.observations, new)[-OBSERVATIONS_MAX:]


def _suspects_caches(instance: Instance, diagnosis: Diagnosis, entry: LedgerEntry) -> bool:
    """A first failure to compile may be a damaged cache's; a second one of the same day is not."""
    return (
        diagnosis.signature == COMPILER_FAILED
        and not (entry.was_ready or diagnosis.incomplete)
        and all(one.failure is not diagnosis.failure for one in instance.ledger)
    )


def _as_stalled(attempt: Attempt, diagnosis: Diagnosis) -> Diagnosis:
    """A death that we ended ourselves for want of progress, where nothing else explains it."""
    if attempt.stalled_seconds is None or diagnosis.failure not in (
        Failure.UNKNOWN,
        Failure.KILLED_BY_SIGNAL,
        Failure.NONE,
    ):
        return diagnosis
    return replace(
        diagnosis,
        failure=Failure.ENGINE_STALLED,
        phase=attempt.phase,
        site=None,
        signature=None,
        summary=f"no progress for {attempt.stalled_seconds:.0f} s in {attempt.phase}",
    )


def _case(
    instance: Instance,
    attempt: Attempt,
    diagnosis: Diagnosis,
    entry: LedgerEntry,
    event: EvidenceGathered,
) -> Case:
    return Case(
        diagnosis=diagnosis,
        entry=entry,
        asked=instance.asked,
        in_force=attempt.settings,
        defaults=instance.defaults,
        adapt=instance.spec.adapt,
        restart=instance.spec.restart,
        model=instance.model,
        engine=instance.engine,
        limits=event.evidence.limits,
        has_gpus=bool(instance.spec.gpus),
        gpu_total_bytes=min(event.evidence.memory_total_bytes.values(), default=None),
        free_at_launch_bytes=attempt.free_at_launch_bytes,
        observations=instance.observations,
        ledger=instance.ledger,
        jitter_fraction=event.jitter_fraction,
        extra_args=instance.spec.extra_args,
        host_gpus=instance.host_gpus,
    )


def _after(
    instance: Instance, attempt: Attempt, decision: Decision, entry: LedgerEntry
) -> tuple[Decision, Mapping[str, SettingValue]]:
    """What the next launch overlays: as before, plus the decision, less what is as asked again.

    A crash decides nothing about settings, so it goes back to the last proven ones. A start that
    was broken off is repeated: it may be the untried answer to the failure before. Forgotten
    settings are not launched again, unless this very death asks for others.
    """
    crashed = entry.was_ready and decision.remedy in (Remedy.RELAUNCH, Remedy.WAIT)
    if crashed:
        return to_last_proven(instance, attempt, decision)
    if attempt.forgotten and not decision.changes:
        return decision, with_lesson(instance).changes
    changes = dict(attempt.changes)
    changes |= {one.setting: one.after for one in decision.changes if one.after is not None}
    asked = instance.asked
    return decision, {name: value for name, value in changes.items() if asked.get(name) != value}


def _go_on(instance: Instance, decision: Decision, at_seconds: float) -> Step:
    if not instance.wanted:
        reason = f"stopped by {instance.wanted_by} after it had died"
        stopped = moved(instance, State.STOPPED, at_seconds, reason)
        return replace(stopped, incident_open=False), (
            ResolveIncident(reason),
            Announce("instance-stopped", reason),
        )
    if decision.remedy is Remedy.GIVE_UP:
        return failed(instance, at_seconds, decision.reason)
    if decision.remedy in (Remedy.HOLD, Remedy.NONE):
        return held(instance, at_seconds, decision.reason)
    if instance.held_by is not None:
        reason = f"died while held by {instance.held_by}; would go on: {decision.reason}"
        return held(instance, at_seconds, reason)
    if decision.delay_seconds <= 0:
        return waiting(instance, at_seconds, f"waiting for the gate: {decision.reason}")
    return backing_off(instance, at_seconds, decision.reason, decision.delay_seconds)


def _announcements(diagnosis: Diagnosis, decision: Decision) -> tuple[Announce, ...]:
    proof = diagnosis.evidence[0].text if diagnosis.evidence else ""
    diagnosed = Announce(
        "failure-diagnosed",
        diagnosis.summary or f"{diagnosis.failure} in {diagnosis.phase or 'an unknown phase'}",
        {
            "failure": diagnosis.failure.value,
            "phase": None if diagnosis.phase is None else diagnosis.phase.value,
            "site": None if diagnosis.site is None else diagnosis.site.value,
            "proof": proof,
        },
    )
    decided = Announce(
        "decision-made",
        _sentence(decision),
        {
            "remedy": decision.remedy.value,
            "changes": [change_document(change) for change in decision.changes],
            "reason": decision.reason,
            "arithmetic": list(decision.arithmetic),
        },
    )
    if not decision.changes:
        return diagnosed, decided
    names = {change.setting: change.after for change in decision.changes}
    told = f"the next attempt runs with {changes_in_words(decision.changes)}"
    return diagnosed, decided, Announce("settings-changed", told, names)


def _sentence(decision: Decision) -> str:
    if decision.remedy is Remedy.RELAUNCH_WITH:
        return f"relaunch with {changes_in_words(decision.changes)}: {decision.reason}"
    words = {
        Remedy.RELAUNCH: "relaunch unchanged",
        Remedy.WAIT: "relaunch when it is free",
        Remedy.HOLD: "hold",
        Remedy.GIVE_UP: "give up",
        Remedy.NONE: "nothing to do",
    }
    later = f" in {decision.delay_seconds:.0f} s" if decision.delay_seconds >= 1 else ""
    return f"{words[decision.remedy]}{later}: {decision.reason}"


def _status_text(status: int | None) -> str:
    if status is None:
        return "exit status unknown"
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"
