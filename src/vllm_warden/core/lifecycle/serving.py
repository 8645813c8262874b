"""A ready engine: what it teaches, what is left for a full batch, and when it has proven itself."""

from __future__ import annotations

from dataclasses import replace

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.document import change_document
from vllm_warden.core.decide.envelope import Envelope, note_proven, note_ready
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.plausible import plausible
from vllm_warden.core.decide.slack import Slack, slack_at_ready
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.lifecycle import load_probe
from vllm_warden.core.lifecycle.effects import (
    Announce,
    Effect,
    RecoverIncident,
    ResolveIncident,
)
from vllm_warden.core.lifecycle.events import (
    BecameReady,
    BecameUnready,
    LoadProbed,
    RequestsServed,
)
from vllm_warden.core.lifecycle.probe import Probe
from vllm_warden.core.lifecycle.states import Attempt, Instance, State
from vllm_warden.core.lifecycle.steps import Step, current, moved
from vllm_warden.core.lifecycle.trial import TrialKind
from vllm_warden.core.model import Failure, Phase


def became_ready(instance: Instance, event: BecameReady) -> Step:
    """Ready: remember the settings; the open incident has recovered, and waits for the soak."""
    before = current(instance)
    first = before.ready_since_seconds is None
    since = event.at_seconds if first else before.ready_since_seconds
    # of an engine that was taken over it is not known yet, however long it has been ready
    slack = _slack(instance, event) if before.slack is None else before.slack
    attempt = replace(before, ready_since_seconds=since, slack=slack)
    text = f"attempt {attempt.number} is ready"
    if attempt.changes:
        text += " with " + ", ".join(f"{name} {value}" for name, value in attempt.changes.items())
    ready = replace(
        moved(instance, State.READY, event.at_seconds, text),
        attempt=attempt,
        envelope=_ready_envelope(instance.envelope, attempt),
    )
    effects: list[Effect] = [Announce("engine-ready", text, {"attempt": attempt.number})]
    if first and slack is not None and slack.text:
        effects.append(_foreseen(slack))
    if instance.incident_open:
        effects.append(RecoverIncident(text))
    return ready, tuple(effects)


def _ready_envelope(envelope: Envelope, attempt: Attempt) -> Envelope:
    """A trial is no lesson before it is proven: its way back must stay."""
    if attempt.trial is not None or attempt.forgotten:
        return envelope
    return note_ready(envelope, attempt.changes)


def _slack(instance: Instance, event: BecameReady) -> Slack | None:
    """What is left for a full batch, by what the start has printed."""
    attempt, version = current(instance), instance.engine.version
    at_ready = Diagnosis(
        Failure.NONE, phase=Phase.SERVING, figures=plausible(event.figures), engine_version=version
    )
    return slack_at_ready(
        Case(
            diagnosis=at_ready,
            entry=LedgerEntry(
                event.at_seconds, Failure.NONE, Phase.SERVING, was_ready=True, after_soak=False
            ),
            asked=instance.asked,
            in_force=attempt.settings,
            defaults=instance.defaults,
            adapt=instance.spec.adapt,
            model=instance.model,
            engine=instance.engine,
            has_gpus=bool(instance.spec.gpus),
            gpu_total_bytes=attempt.total_at_launch_bytes,
            free_at_launch_bytes=attempt.free_at_launch_bytes,
        )
    )


def _foreseen(slack: Slack) -> Announce:
    changes = [change_document(change) for change in slack.changes]
    data = {"slack_bytes": round(slack.slack_bytes), "changes": changes}
    return Announce("death-foreseen", slack.text, {**data, "arithmetic": list(slack.arithmetic)})


def became_unready(instance: Instance, event: BecameUnready) -> Step:
    return moved(instance, State.UNREADY, event.at_seconds, event.reason), (
        Announce("engine-unready", event.reason),
    )


def requests_served(instance: Instance, event: RequestsServed) -> Step:
    """Settings count as proven after the soak: long enough, and under real requests.

    The open incident ends with the soak's time: an idle instance never gathers its requests.
    """
    attempt, restart = current(instance), instance.spec.restart
    since = attempt.ready_since_seconds
    if since is None or event.at_seconds - since < restart.soak_seconds:
        return instance, ()
    if attempt.soaked or event.total - attempt.probe_requests < restart.soak_requests:
        if not attempt.soaked and load_probe.may_come(instance, attempt):
            return load_probe.probed_if_idle(instance, event)
        return _over(instance, f"attempt {attempt.number} has lasted the soak, though not proven")
    return _proven(instance, attempt, f"{event.total} requests")


def load_probed(instance: Instance, event: LoadProbed) -> Step:
    """A full batch was answered while nobody else asked: as good as the soak's requests."""
    attempt = current(instance)
    if event.problem is not None or attempt.soaked:
        return load_probe.not_proven(instance, event)
    return _proven(instance, attempt, f"a load probe of {event.sent} requests")


def _proven(instance: Instance, attempt: Attempt, by: str) -> Step:
    proven = replace(
        instance,
        attempt=replace(attempt, soaked=True, probe=Probe.OVER),
        envelope=_proven_envelope(instance.envelope, attempt),
        ledger=(),
    )
    text = f"attempt {attempt.number} has proven its settings: {by}"
    over, effects = _over(proven, text)
    return over, (Announce("settings-proven", text), *effects)


def _over(instance: Instance, text: str) -> Step:
    """The soak is over without another failure: the open incident has ended."""
    if not instance.incident_open:
        return instance, ()
    return replace(instance, incident_open=False), (ResolveIncident(text),)


def _proven_envelope(envelope: Envelope, attempt: Attempt) -> Envelope:
    """Settings that were given for one launch, or forgotten meanwhile, are not learned."""
    given = attempt.trial is not None and attempt.trial.kind is TrialKind.GIVEN
    return envelope if given or attempt.forgotten else note_proven(envelope, attempt.changes)
