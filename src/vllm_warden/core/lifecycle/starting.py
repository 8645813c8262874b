"""From the gate to a ready engine."""

from __future__ import annotations

import re
from dataclasses import replace

from vllm_warden.core.decide.beside import fit_beside
from vllm_warden.core.decide.envelope import Envelope, envelope_key, note_proven, note_ready
from vllm_warden.core.decide.knobs import effective
from vllm_warden.core.lifecycle.effects import (
    Announce,
    Effect,
    EndRemains,
    Launch,
    ResolveIncident,
)
from vllm_warden.core.lifecycle.events import (
    BecameReady,
    BecameUnready,
    GateReported,
    Launched,
    LaunchFailed,
    NotReadyYet,
    PhaseEntered,
    RequestsServed,
    TimerElapsed,
)
from vllm_warden.core.lifecycle.states import Attempt, Instance, State
from vllm_warden.core.lifecycle.steps import (
    Step,
    backing_off,
    current,
    failed,
    held,
    looking_at_gate,
    moved,
    waiting,
    with_lesson,
    with_timer,
)
from vllm_warden.core.plan.defaults import engine_defaults
from vllm_warden.core.plan.gate import (
    Gate,
    GateReport,
    GateVerdict,
    instance_gpus,
    judge_gate,
)

LOOK_AGAIN_SECONDS = 0.5
LOOK_AGAIN_LATER_SECONDS = 5.0
EAGER_SECONDS = 60.0
"""Memory of a dead engine usually comes back within a minute; after that a look costs more than
it can win."""
LAUNCH_RETRY_SECONDS = 30.0


def gate_reported(instance: Instance, event: GateReported) -> Step:
    """Open: launch. Otherwise wait and say for what, or stop waiting."""
    informed = _informed(instance, event.report)
    since = instance.gate_since_seconds
    waited = 0.0 if since is None else event.at_seconds - since
    settings = effective({**informed.asked, **informed.changes}, informed.defaults, informed.model)
    utilization = settings.get("gpu_memory_utilization")
    verdict = judge_gate(informed.spec, event.report, utilization, waited)
    if verdict.gate is Gate.OPEN:
        return _launch(informed, event, verdict)
    if verdict.gate is Gate.FAIL:
        return failed(informed, event.at_seconds, verdict.text)
    if verdict.gate is Gate.HOLD:
        return _beside(informed, event, verdict)
    return _wait(informed, verdict, waited)


def _beside(instance: Instance, event: GateReported, verdict: GateVerdict) -> Step:
    """Nobody left in time: fit beside those who stay where that is allowed, else hold."""
    in_force = {**instance.asked, **instance.changes}
    found = fit_beside(
        instance.spec,
        instance_gpus(instance.spec, event.report),
        (in_force, instance.defaults),
        (instance.engine, instance.model),
    )
    if found is None:
        return held(instance, event.at_seconds, verdict.text)
    again = judge_gate(instance.spec, event.report, found.utilization, 0.0)
    if found.utilization is None or again.gate is not Gate.OPEN:
        return held(instance, event.at_seconds, f"{verdict.text}; {found.text}")
    changes = {**instance.changes, "gpu_memory_utilization": found.utilization}
    launched_beside, effects = _launch(replace(instance, changes=changes), event, again)
    text = f"{verdict.text}; nobody left within half an hour: {found.text}"
    return launched_beside, (
        Announce("settings-changed", text, {"gpu_memory_utilization": found.utilization}),
        *effects,
    )


def _wait(instance: Instance, verdict: GateVerdict, waited_seconds: float) -> Step:
    pause = LOOK_AGAIN_SECONDS if waited_seconds < EAGER_SECONDS else LOOK_AGAIN_LATER_SECONDS
    again, timer = with_timer(
        replace(instance, gate_text=verdict.text, reason=f"waiting: {verdict.text}"), pause
    )
    effects: list[Effect] = [timer]
    if verdict.kill_remains:
        effects.insert(0, EndRemains())
    if _without_numbers(instance.gate_text) != _without_numbers(verdict.text):
        effects.append(Announce("gate-waiting", verdict.text))
    return again, tuple(effects)


def _without_numbers(text: str | None) -> str | None:
    return None if text is None else re.sub(r"\d+", "", text)


def look_again(instance: Instance, _: TimerElapsed) -> Step:
    return looking_at_gate(instance)


def _informed(instance: Instance, report: GateReport) -> Instance:
    """Take over what the look told about engine, model and GPUs, and the lessons for them."""
    mine = instance_gpus(instance.spec, report)
    names = tuple(gpu.name for gpu in mine) or tuple("unknown" for _ in instance.spec.gpus)
    smallest = min((gpu.total_bytes for gpu in mine), default=None)
    defaults = engine_defaults(instance.spec.engine, report.engine, names, smallest)
    informed = replace(instance, engine=report.engine, model=report.model, defaults=defaults)
    products = tuple(f"{gpu.name} {gpu.total_bytes}" for gpu in mine)
    key = envelope_key(informed.asked, report.model, report.engine, products)
    if key == instance.envelope.key:
        return informed
    known = {envelope.key: envelope for envelope in instance.envelopes}
    return with_lesson(replace(informed, envelope=known.get(key, Envelope(key))))


def _launch(instance: Instance, event: GateReported, verdict: GateVerdict) -> Step:
    number = instance.attempts_made + 1
    settings = {**instance.asked, **instance.changes}
    chosen = instance_gpus(instance.spec, event.report)
    attempt = Attempt(
        number,
        settings,
        dict(instance.changes),
        event.at_seconds,
        free_at_launch_bytes=min((gpu.free_bytes for gpu in chosen), default=None),
    )
    starting = replace(
        moved(instance, State.STARTING, event.at_seconds, f"attempt {number} is starting"),
        attempt=attempt,
        attempts_made=number,
        gpu_indices=verdict.gpu_indices,
        gate_text=None,
        gate_since_seconds=None,
    )
    effects: tuple[Effect, ...] = (Launch(number, settings, verdict.gpu_indices),)
    if instance.gate_text is not None:
        effects = (Announce("gate-opened", f"the gate is open for attempt {number}"), *effects)
    if instance.lesson_unused is not None:
        effects = (Announce("lesson-unused", instance.lesson_unused), *effects)
    return replace(starting, lesson_unused=None), effects


def launched(instance: Instance, event: Launched) -> Step:
    attempt = replace(current(instance), launch_id=event.launch_id, identity=event.identity)
    text = f"attempt {attempt.number} is process {event.identity.pid}"
    data = {"attempt": attempt.number, "settings": dict(attempt.settings)}
    return replace(instance, attempt=attempt), (Announce("attempt-launched", text, data),)


def launch_failed(instance: Instance, event: LaunchFailed) -> Step:
    reason = f"cannot launch the engine: {event.reason}"
    if event.hopeless:
        return failed(instance, event.at_seconds, reason)
    return backing_off(instance, event.at_seconds, reason, LAUNCH_RETRY_SECONDS)


def backoff_elapsed(instance: Instance, event: TimerElapsed) -> Step:
    return waiting(instance, event.at_seconds, "waiting for the gate")


def phase_entered(instance: Instance, event: PhaseEntered) -> Step:
    attempt = replace(current(instance), phase=event.phase)
    data = {"attempt": attempt.number, "phase": event.phase.value}
    text = f"attempt {attempt.number} entered {event.phase}"
    return replace(instance, attempt=attempt), (Announce("phase-entered", text, data),)


def not_ready_yet(instance: Instance, event: NotReadyYet) -> Step:
    reason = f"attempt {event.attempt} is starting: {event.reason}"
    return replace(instance, reason=reason), ()


def became_ready(instance: Instance, event: BecameReady) -> Step:
    """Ready: remember the settings, and close the incident that this attempt answered."""
    before = current(instance)
    first = before.ready_since_seconds is None
    since = event.at_seconds if first else before.ready_since_seconds
    attempt = replace(before, ready_since_seconds=since)
    text = f"attempt {attempt.number} is ready"
    if attempt.changes:
        text += " with " + ", ".join(f"{name} {value}" for name, value in attempt.changes.items())
    ready = replace(
        moved(instance, State.READY, event.at_seconds, text),
        attempt=attempt,
        envelope=note_ready(instance.envelope, attempt.changes),
        incident_open=False,
    )
    effects: list[Effect] = [Announce("engine-ready", text, {"attempt": attempt.number})]
    if instance.incident_open:
        effects.append(ResolveIncident(text))
    return ready, tuple(effects)


def became_unready(instance: Instance, event: BecameUnready) -> Step:
    return moved(instance, State.UNREADY, event.at_seconds, event.reason), (
        Announce("engine-unready", event.reason),
    )


def requests_served(instance: Instance, event: RequestsServed) -> Step:
    """Settings count as proven after the soak: long enough, and under real requests."""
    attempt, restart = current(instance), instance.spec.restart
    since = attempt.ready_since_seconds
    long_enough = since is not None and event.at_seconds - since >= restart.soak_seconds
    if attempt.soaked or not long_enough or event.total < restart.soak_requests:
        return instance, ()
    proven = replace(
        instance,
        attempt=replace(attempt, soaked=True),
        envelope=note_proven(instance.envelope, attempt.changes),
        ledger=(),
    )
    text = f"attempt {attempt.number} has proven its settings: {event.total} requests"
    return proven, (Announce("settings-proven", text),)
