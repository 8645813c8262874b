"""What people (and the daemon itself) may ask of an instance, in every state."""

from __future__ import annotations

from dataclasses import replace

from vllm_warden.core.lifecycle.effects import (
    Announce,
    ArmTimer,
    Effect,
    FollowRequests,
    ReleaseAttempt,
    ResolveIncident,
    Signal,
    StopSignal,
)
from vllm_warden.core.lifecycle.events import (
    HoldRequested,
    LaunchFailed,
    RequestsLeft,
    RestartRequested,
    ResumeRequested,
    StartRequested,
    StopRequested,
    TimerElapsed,
)
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.lifecycle.steps import (
    Step,
    current,
    held,
    moved,
    waiting,
    with_lesson,
    with_timer,
)
from vllm_warden.core.lifecycle.trial import Trial
from vllm_warden.core.plan.command_line import drains_itself

SIGTERM_AFTER_SECONDS = 2.0
"""In start-up one SIGINT ends vLLM; some of its start-up code loses a first signal."""
KILL_AFTER_SECONDS = 8.0
"""Ten seconds after the SIGINT nothing of a starting engine is worth waiting for."""
DRAIN_SPARE_SECONDS = 5.0
"""vLLM itself needs some seconds after the drain to end its workers."""
STOP_NOW_SECONDS = 2.0


def start(instance: Instance, event: StartRequested | ResumeRequested | RestartRequested) -> Step:
    """Want it, forget a hold, and look at the gate with the learned settings."""
    if instance.found is not None:
        return want(instance, event)
    trial = None if isinstance(event, ResumeRequested) else event.trial
    wanted = replace(
        with_lesson(instance), wanted=True, wanted_by=event.by, held_by=None, trial=trial
    )
    started, effects = waiting(wanted, event.at_seconds, "waiting for the gate")
    told = Announce("instance-started", f"start asked by {event.by}")
    return started, (told, *_trial_told(trial), *effects)


def _trial_told(trial: Trial | None) -> tuple[Effect, ...]:
    if trial is None:
        return ()
    named = ", ".join(f"{name} {value}" for name, value in trial.changes.items())
    what = f"the next launch is tried with {named or 'the settings as asked'}"
    data = {"kind": trial.kind.value, "settings": dict(trial.changes)}
    return (Announce("trial-asked", f"{what}, by {trial.by}", data),)


def want(instance: Instance, event: StartRequested | RestartRequested | ResumeRequested) -> Step:
    """Something is under way that a start joins: from now on it is wanted."""
    trial = instance.trial if isinstance(event, ResumeRequested) else event.trial
    wanted = replace(instance, wanted=True, wanted_by=event.by, held_by=None, trial=trial)
    return wanted, _trial_told(trial if trial is not instance.trial else None)


def stop_nothing(instance: Instance, event: StopRequested) -> Step:
    """Stop what does not run; what is about to be taken over is stopped then."""
    if instance.found is not None:
        return stop_diagnosing(instance, event)
    if event.keep_wanted:
        if instance.state in (State.HELD, State.FAILED):
            return instance, ()
        return moved(instance, State.STOPPED, event.at_seconds, "stopped with the daemon"), ()
    reason = f"stopped by {event.by}"
    stopped = replace(
        moved(instance, State.STOPPED, event.at_seconds, reason),
        wanted=False,
        wanted_by=event.by,
        trial=None,
        gate_text=None,
        gate_since_seconds=None,
    )
    effects = (Announce("instance-stopped", reason),)
    if instance.incident_open:
        return replace(stopped, incident_open=False), (ResolveIncident(reason), *effects)
    return stopped, effects


def stop_starting(instance: Instance, event: StopRequested | RestartRequested) -> Step:
    """SIGINT first; SIGTERM and the kill follow by timer."""
    number = current(instance).number
    # without a drain the kill itself is the next step
    step = 1 if event.now else 0
    stopping, timer = _stopping(instance, event, SIGTERM_AFTER_SECONDS, step)
    told = _trial_told(stopping.trial)
    return stopping, (Signal(number, StopSignal.INTERRUPT), timer, *told)


def stop_serving(instance: Instance, event: StopRequested | RestartRequested) -> Step:
    """One SIGTERM, which drains; the kill follows at the deadline.

    An engine that would drop its requests gets the SIGTERM when none is left, or at the deadline.
    """
    attempt = current(instance)
    drain = instance.spec.drain_seconds
    if event.now or drain < 1:
        limit = STOP_NOW_SECONDS if event.now else DRAIN_SPARE_SECONDS
        stopping, timer = _stopping(instance, event, limit, step=1)
        effects: tuple[Effect, ...] = (Signal(attempt.number, StopSignal.TERMINATE), timer)
    elif drains_itself(instance.spec, attempt.settings, instance.engine):
        stopping, timer = _stopping(instance, event, drain + DRAIN_SPARE_SECONDS, step=1)
        terminate = Signal(attempt.number, StopSignal.TERMINATE)
        effects = (terminate, FollowRequests(attempt.number), timer)
    else:
        stopping, timer = _stopping(instance, event, drain, step=0)
        effects = (FollowRequests(attempt.number), timer)
    return stopping, (*effects, *_trial_told(stopping.trial))


def requests_left(instance: Instance, event: RequestsLeft) -> Step:
    """Say how far the drain is; where the engine waits for our SIGTERM, end it after the last."""
    known = replace(instance, requests_left=event.left)
    if event.left == 0 and instance.stop_step == 0:
        return _terminate(known)
    least = instance.requests_left
    if event.left and (least is None or event.left < least):
        return known, (Announce("draining", f"requests left: {event.left}"),)
    return known, ()


def _stopping(
    instance: Instance, event: StopRequested | RestartRequested, limit_seconds: float, step: int
) -> tuple[Instance, ArmTimer]:
    verb = "stop" if isinstance(event, StopRequested) else "restart"
    stopping = moved(instance, State.STOPPING, event.at_seconds, f"{verb} asked by {event.by}")
    stopping = replace(stopping, stop_step=step, requests_left=None)
    if isinstance(event, RestartRequested):
        stopping = replace(
            stopping, wanted=True, wanted_by=event.by, held_by=None, trial=event.trial
        )
    elif not event.keep_wanted:
        stopping = replace(stopping, wanted=False, wanted_by=event.by)
    return with_timer(stopping, limit_seconds)


def stop_again(instance: Instance, event: StopRequested) -> Step:
    """A second stop ends a wanted restart; with ``now`` it ends the drain as well."""
    again = instance
    if not event.keep_wanted:
        again = replace(instance, wanted=False, wanted_by=event.by, trial=None)
    if event.now:
        return replace(again, timer=None), (ReleaseAttempt(current(instance).number),)
    return again, ()


def stop_step_elapsed(instance: Instance, _: TimerElapsed) -> Step:
    """The next, harder step of a stop."""
    if instance.stop_step == 0:
        return _terminate(instance)
    return replace(instance, timer=None), (ReleaseAttempt(current(instance).number),)


def _terminate(instance: Instance) -> Step:
    next_step, timer = with_timer(replace(instance, stop_step=1), KILL_AFTER_SECONDS)
    return next_step, (Signal(current(instance).number, StopSignal.TERMINATE), timer)


def nothing_to_stop(instance: Instance, _: LaunchFailed) -> Step:
    """The launch failed after a stop was asked for."""
    return replace(instance, timer=None), (ReleaseAttempt(current(instance).number),)


def stop_diagnosing(instance: Instance, event: StopRequested) -> Step:
    """The evidence still arrives; after it nothing is relaunched."""
    if event.keep_wanted:
        return instance, ()
    return replace(instance, wanted=False, wanted_by=event.by, trial=None), ()


def hold_running(instance: Instance, event: HoldRequested) -> Step:
    """Leave the engine alone, but never relaunch it."""
    text = f"hold asked by {event.by}: the engine runs on and will not be relaunched"
    return replace(instance, held_by=event.by), (Announce("instance-held", text),)


def hold_stopping(instance: Instance, event: HoldRequested) -> Step:
    """Held as soon as nothing of the attempt is left."""
    return replace(instance, held_by=event.by), ()


def hold_idle(instance: Instance, event: HoldRequested) -> Step:
    """Nothing runs, and nothing will be started; what is about to be taken over runs on."""
    if instance.found is not None:
        return hold_running(instance, event)
    by_operator = replace(instance, held_by=event.by)
    return held(by_operator, event.at_seconds, f"hold asked by {event.by}")


def resume_running(instance: Instance, event: ResumeRequested) -> Step:
    """Allow relaunches again."""
    text = f"resumed by {event.by}: will be relaunched when it dies"
    return replace(instance, held_by=None), (Announce("instance-started", text),)
