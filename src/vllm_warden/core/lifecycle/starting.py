"""From the gate to an engine that starts."""

from __future__ import annotations

import re
from dataclasses import replace

from vllm_warden.core.decide.beside import fit_beside
from vllm_warden.core.decide.envelope import (
    envelope_key,
    inherited,
)
from vllm_warden.core.decide.knobs import effective
from vllm_warden.core.decide.ledger import failed_launch, judge_launch, with_entry
from vllm_warden.core.decide.slack import cuda_total_bytes
from vllm_warden.core.lifecycle.adopting import take_over
from vllm_warden.core.lifecycle.effects import (
    Announce,
    Effect,
    EndRemains,
    Launch,
)
from vllm_warden.core.lifecycle.events import (
    GateReported,
    Launched,
    LaunchFailed,
    NotReadyYet,
    PhaseEntered,
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
    with_trial,
)
from vllm_warden.core.plan.defaults import engine_defaults
from vllm_warden.core.plan.gate import (
    Gate,
    GateReport,
    GateVerdict,
    instance_gpus,
    judge_gate,
)
from vllm_warden.core.plan.returning import follow

LOOK_SOON_SECONDS, SOON_SECONDS = 0.15, 10.0
"""Memory of a dead engine usually comes back within seconds: for so long it is looked for often."""
LOOK_SECONDS, EAGER_SECONDS = 0.5, 60.0
"""Nearly always it is back within a minute, and so is what else a start waits for."""
LOOK_LATER_SECONDS = 5.0
"""After that a look costs more than it can win."""
TELL_AGAIN_SECONDS = 120.0


def gate_reported(instance: Instance, event: GateReported) -> Step:
    """Open: launch. Otherwise wait and say for what, or stop waiting."""
    if instance.found is not None:
        return take_over(_informed(instance, event.report), event, instance.found)
    informed = with_trial(_informed(instance, event.report))
    since = instance.gate_since_seconds
    waited = 0.0 if since is None else event.at_seconds - since
    settings = effective({**informed.asked, **informed.changes}, informed.defaults, informed.model)
    utilization = settings.get("gpu_memory_utilization")
    mine = instance_gpus(informed.spec, event.report)
    returning = follow(informed.returning, mine, event.at_seconds) if mine else None
    informed = replace(informed, returning=returning)
    verdict = judge_gate(informed.spec, event.report, utilization, waited, returning)
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
    begun, effects = _launch(replace(instance, changes=changes), event, again)
    launched_beside = replace(begun, attempt=replace(current(begun), beside=True))
    text = f"{verdict.text}; nobody left within half an hour: {found.text}"
    return launched_beside, (
        Announce("settings-changed", text, {"gpu_memory_utilization": found.utilization}),
        *effects,
    )


def _wait(instance: Instance, verdict: GateVerdict, waited_seconds: float) -> Step:
    pause = LOOK_SECONDS if waited_seconds < EAGER_SECONDS else LOOK_LATER_SECONDS
    if verdict.may_pass_soon and waited_seconds < SOON_SECONDS:
        pause = LOOK_SOON_SECONDS
    again, timer = with_timer(
        replace(instance, gate_text=verdict.text, reason=f"waiting: {verdict.text}"), pause
    )
    effects: list[Effect] = [timer]
    if verdict.kill_remains:
        effects.insert(0, EndRemains())
    if _without_numbers(instance.gate_text) != _without_numbers(verdict.text):
        effects.append(Announce("gate-waiting", verdict.text))
    if waited_seconds >= TELL_AGAIN_SECONDS and not again.gate_told:
        again = replace(again, gate_told=True)
        text = f"still waiting after {waited_seconds / 60:.0f} min: {verdict.text}"
        effects.append(Announce("gate-waiting-long", text))
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
    informed = replace(
        instance,
        engine=report.engine,
        model=report.model,
        defaults=defaults,
        host_gpus=len(report.gpus),
    )
    products = tuple(f"{gpu.name} {gpu.total_bytes}" for gpu in mine)
    key = envelope_key(informed.asked, report.model, report.engine, products)
    if key == instance.envelope.key:
        return informed
    before = instance.envelopes
    if instance.envelope.key:
        before = (*(one for one in before if one.key != instance.envelope.key), instance.envelope)
    known = {envelope.key: envelope for envelope in before}
    envelope = known.get(key) or inherited(key, before)
    return with_lesson(replace(informed, envelope=envelope, envelopes=before))


def _launch(instance: Instance, event: GateReported, verdict: GateVerdict) -> Step:
    number = instance.attempts_made + 1
    settings = {**instance.asked, **instance.changes}
    chosen = instance_gpus(instance.spec, event.report)
    rising = instance.returning is not None and instance.returning.is_rising
    fullest = min(chosen, key=lambda gpu: gpu.free_bytes, default=None)
    attempt = Attempt(
        number,
        settings,
        dict(instance.changes),
        event.at_seconds,
        # of memory that is still coming back nobody knows how much there will be
        free_at_launch_bytes=None if fullest is None or rising else fullest.free_bytes,
        total_at_launch_bytes=None if fullest is None else cuda_total_bytes(fullest),
        trial=instance.trial,
    )
    starting = replace(
        moved(instance, State.STARTING, event.at_seconds, f"attempt {number} is starting"),
        attempt=attempt,
        attempts_made=number,
        trial=None,
        gpu_indices=verdict.gpu_indices,
        gate_text=None,
        gate_since_seconds=None,
    )
    launch = Launch(number, settings, verdict.gpu_indices, without_caches=instance.caches_suspect)
    effects: tuple[Effect, ...] = (launch,)
    if instance.gate_text is not None:
        effects = (Announce("gate-opened", f"the gate is open for attempt {number}"), *effects)
    if instance.lesson_unused is not None:
        effects = (Announce("lesson-unused", instance.lesson_unused), *effects)
    return replace(starting, lesson_unused=None), effects


def launched(instance: Instance, event: Launched) -> Step:
    attempt = replace(current(instance), launch_id=event.launch_id, identity=event.identity)
    text = f"attempt {attempt.number} is process {event.identity.pid}"
    data = {"attempt": attempt.number, "settings": dict(attempt.settings)}
    launched_now = replace(instance, attempt=attempt, caches_suspect=False)
    return launched_now, (Announce("attempt-launched", text, data),)


def launch_failed(instance: Instance, event: LaunchFailed) -> Step:
    """It may be the host's trouble of a moment, or the same every time: the budget tells."""
    reason = f"cannot launch the engine: {event.reason}"
    if event.hopeless:
        return failed(instance, event.at_seconds, reason)
    told = Announce("launch-failed", reason, {"attempt": event.attempt})
    entry = failed_launch(event.at_seconds)
    verdict = judge_launch(instance.ledger, entry, instance.spec.restart)
    counted = replace(instance, ledger=with_entry(instance.ledger, entry))
    if verdict.spent is not None:
        reason = f"the restart budget is spent ({verdict.spent}); last: {reason}"
    elif instance.held_by is not None:
        reason = f"failed while held by {instance.held_by}: {reason}"
    else:
        again = replace(counted, trial=current(instance).trial)
        paused, effects = backing_off(again, event.at_seconds, reason, verdict.delay_seconds)
        return paused, (told, *effects)
    on_hold, effects = held(counted, event.at_seconds, reason)
    return on_hold, (told, *effects)


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
