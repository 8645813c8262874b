"""Instances, decisions and incidents as the JSON documents of the API (api/schema.py)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import cast

from vllm_warden.api.schema import (
    ChangeDocument,
    DecisionDocument,
    DiagnosisDocument,
    FailureDocument,
    ForeseenDocument,
    IncidentDocument,
    InstanceDocument,
    LastIncidentDocument,
    ProofDocument,
    SettingDocument,
    TrialDocument,
)
from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.decide.document import change_document, decision_document
from vllm_warden.core.decide.promising import promising
from vllm_warden.core.diagnose.document import document as diagnosis_document
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.lifecycle.effects import RecordIncident
from vllm_warden.core.lifecycle.found import asks_for_others
from vllm_warden.core.lifecycle.states import RUNNING, Instance, State
from vllm_warden.daemon.live_attempt import LiveAttempt

EXCERPT_AROUND = 3
EXCERPT_MAX = 400
LINE_MAX = 2000


def instance_document(
    instance: Instance,
    live: LiveAttempt | None,
    last_incident: LastIncidentDocument | None,
    wall_of: Mapping[str, float],
) -> InstanceDocument:
    """One entry of ``status``; ``wall_of`` turns the names of moments into epoch seconds."""
    attempt = instance.attempt
    left = instance.requests_left if instance.state is State.STOPPING else None
    alive = instance.state in RUNNING or instance.state in (State.STOPPING, State.DIAGNOSING)
    return {
        "name": instance.spec.name,
        "state": instance.state.value,
        "wanted": _wanted(instance),
        "phase": attempt.phase.value if attempt is not None and alive else None,
        "attempt": instance.attempts_made,
        "since": wall_of.get("since"),
        "reason": _reason(instance, left),
        "degraded": instance.degraded,
        "mode": instance.spec.adapt.mode.value,
        "model": (instance.spec if live is None else live.spec).model,
        "requests_left": left,
        "port": (instance.spec if live is None else live.spec).port,
        "settings": setting_documents(instance, live),
        "gpus": list(instance.gpu_indices)
        or [gpu for gpu in instance.spec.gpus if isinstance(gpu, int)],
        "pids": {
            "parent": live.child.identity.pid
            if live is not None and live.child is not None and not live.exited
            else None,
            "engine": {}
            if live is None
            else {str(pid): title for pid, title in live.engine.items()},
        },
        "memory": {"used_bytes": _used(live)},
        "last_incident": last_incident,
        "gate": None
        if instance.gate_text is None
        else {"text": instance.gate_text, "since": wall_of.get("gate")},
        "decision": None if instance.decision is None else _decision(instance.decision),
        "next_try": wall_of.get("next_try"),
        "foreseen": _foreseen(instance) if alive else None,
        "trial": _trial(instance, alive=alive),
        "retry_promising": _promising(instance, alive=alive),
        "restart_pending": live is not None and _is_outdated(instance, live),
    }


def _reason(instance: Instance, requests_left: int | None) -> str:
    if requests_left is None:
        return instance.reason
    return f"{instance.reason}; requests left: {requests_left}"


def _is_outdated(instance: Instance, live: LiveAttempt) -> bool:
    """Whether the settings file asks for another engine than the one that was launched."""
    now, launched = instance.spec, live.spec
    place = (now.model, now.host, now.port) != (launched.model, launched.host, launched.port)
    in_force = live.plan.settings
    return place or asks_for_others(now.engine, launched.engine, instance.asked, in_force)


def _foreseen(instance: Instance) -> ForeseenDocument | None:
    slack = None if instance.attempt is None else instance.attempt.slack
    if slack is None or not slack.text:
        return None
    return {
        "text": slack.text,
        "slack_bytes": round(slack.slack_bytes),
        "changes": [cast("ChangeDocument", change_document(one)) for one in slack.changes],
        "arithmetic": list(slack.arithmetic),
    }


def _trial(instance: Instance, *, alive: bool) -> TrialDocument | None:
    running = instance.attempt.trial if alive and instance.attempt is not None else None
    trial = instance.trial or running
    return None if trial is None else {"kind": trial.kind.value, "by": trial.by}


def _promising(instance: Instance, *, alive: bool) -> list[str]:
    """Why the asked settings may work by now, where others are in force."""
    attempt = instance.attempt if alive else None
    if not instance.degraded or (attempt is not None and attempt.trial is not None):
        return []
    free = None if attempt is None else attempt.free_at_launch_bytes
    slack = None if attempt is None else attempt.slack
    return list(promising(instance.envelope, instance.engine.version, free, slack))


def _wanted(instance: Instance) -> str:
    if instance.held_by is not None:
        return "held"
    return "running" if instance.wanted else "stopped"


def _used(live: LiveAttempt | None) -> dict[str, int]:
    if live is None or not live.samples:
        return {}
    return {str(gpu): used for gpu, used in live.samples[-1].used_bytes.items()}


def setting_documents(instance: Instance, live: LiveAttempt | None) -> list[SettingDocument]:
    """Asked and in force, for every asked setting and every change."""
    asked = instance.asked
    now, launched = instance.spec.engine, (instance.spec if live is None else live.spec).engine
    outdated = {name for name in (*now, *launched) if now.get(name) != launched.get(name)}
    why = "" if instance.decision is None else instance.decision.reason
    attempt = instance.attempt
    if attempt is not None and attempt.trial is not None and instance.state in RUNNING:
        why = f"given for one launch by {attempt.trial.by}"
    return [
        {
            "name": name,
            "asked": asked.get(name),
            "in_force": instance.changes.get(name, asked.get(name)),
            "why": _why(name, why, outdated) if name in instance.changes else "",
        }
        for name in dict.fromkeys((*asked, *instance.changes))
    ]


def _why(name: str, told: str, outdated: Container[str]) -> str:
    if name in outdated:
        return "launched before the settings file was changed"
    return told or "learned from an earlier attempt"


def incident_document(
    number: int, instance: str, opened_wall_seconds: float, effect: RecordIncident
) -> IncidentDocument:
    """A new incident: its first failure in full, and none after it yet."""
    first = failure_document(opened_wall_seconds, effect)
    return {
        "number": number,
        "instance": instance,
        "opened": opened_wall_seconds,
        "recovered": None,
        "resolved": None,
        "resolution": None,
        "failures": 1,
        "attempt": first["attempt"],
        "exit_status": first["exit_status"],
        "diagnosis": first["diagnosis"],
        "decision": first["decision"],
        "settings_before": first["settings_before"],
        "settings_after": first["settings_after"],
        "incomplete": first["incomplete"],
        "excerpt": first["excerpt"],
        "further": [],
    }


def failure_document(at_wall_seconds: float, effect: RecordIncident) -> FailureDocument:
    """One failure in full, with the lines around its proof."""
    diagnosis = effect.diagnosis
    return {
        "attempt": effect.attempt,
        "at": at_wall_seconds,
        "exit_status": effect.evidence.exit_status,
        "diagnosis": cast("DiagnosisDocument", diagnosis_document(diagnosis)),
        "decision": _decision(effect.decision),
        "settings_before": dict(effect.settings_before),
        "settings_after": None if effect.settings_after is None else dict(effect.settings_after),
        "incomplete": diagnosis.incomplete,
        "excerpt": excerpt(effect.evidence, {line.line for line in diagnosis.evidence}),
    }


def _decision(decision: Decision) -> DecisionDocument:
    return cast("DecisionDocument", decision_document(decision))


def excerpt(evidence: Evidence, proof_lines: set[int]) -> list[ProofDocument]:
    """The proof with some lines around it, then the last lines, in order and bounded."""
    wanted = {
        number
        for line in proof_lines
        for number in range(line - EXCERPT_AROUND, line + EXCERPT_AROUND + 1)
    }
    wanted |= {record.number for record in evidence.records[-40:]}
    chosen = [record for record in evidence.records if record.number in wanted]
    return [
        {"line": record.number, "text": record.text[:LINE_MAX]} for record in chosen[:EXCERPT_MAX]
    ]


def incident_in_short(document: IncidentDocument) -> LastIncidentDocument:
    """The one-line form of an incident for ``status``: its newest failure."""
    newest = document["further"][-1] if document["further"] else None
    diagnosis = document["diagnosis"] if newest is None else newest["diagnosis"]
    return {
        "number": document["number"],
        "failure": diagnosis["failure"],
        "phase": diagnosis["phase"],
        "site": diagnosis["site"],
        "at": document["opened"] if newest is None else newest["at"],
        "summary": diagnosis.get("summary", ""),
    }
