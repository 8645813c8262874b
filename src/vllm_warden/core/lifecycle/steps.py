"""The small moves that all actions are made of."""

from __future__ import annotations

from dataclasses import replace

from vllm_warden.core.decide.lessons import usable_lesson
from vllm_warden.core.lifecycle.effects import Announce, ArmTimer, Effect, ObserveGate
from vllm_warden.core.lifecycle.states import Attempt, Instance, State

Step = tuple[Instance, tuple[Effect, ...]]


def moved(instance: Instance, state: State, at_seconds: float, reason: str) -> Instance:
    """The instance in a new state; whatever timer it had is stale from now on."""
    since = instance.since_seconds if instance.state is state else at_seconds
    return replace(
        instance, state=state, since_seconds=since, reason=reason, timer=None, next_try_seconds=None
    )


def with_timer(instance: Instance, after_seconds: float) -> tuple[Instance, ArmTimer]:
    """Arm the one timer of the instance; an earlier one becomes stale."""
    number = instance.timers_made + 1
    armed = replace(instance, timer=number, timers_made=number)
    return armed, ArmTimer(number, after_seconds)


def looking_at_gate(instance: Instance) -> Step:
    """Ask for a look at the gate; only the answer with this number counts."""
    number = instance.timers_made + 1
    return replace(instance, timer=number, timers_made=number), (ObserveGate(number),)


def waiting(instance: Instance, at_seconds: float, reason: str) -> Step:
    """Into WAITING with a first look at the gate."""
    moved_on = moved(instance, State.WAITING, at_seconds, reason)
    fresh = replace(
        moved_on, gate_text=None, gate_since_seconds=at_seconds, gate_told=False, returning=None
    )
    return looking_at_gate(fresh)


def backing_off(instance: Instance, at_seconds: float, reason: str, after_seconds: float) -> Step:
    """Into BACKOFF until the timer looks at the gate again."""
    backoff = moved(instance, State.BACKOFF, at_seconds, reason)
    armed, timer = with_timer(backoff, after_seconds)
    return replace(armed, next_try_seconds=at_seconds + after_seconds), (timer,)


def held(instance: Instance, at_seconds: float, reason: str) -> Step:
    """Into HELD, announced."""
    return moved(instance, State.HELD, at_seconds, reason), (Announce("instance-held", reason),)


def failed(instance: Instance, at_seconds: float, reason: str) -> Step:
    """Into FAILED, announced."""
    return moved(instance, State.FAILED, at_seconds, reason), (Announce("instance-failed", reason),)


def with_lesson(instance: Instance) -> Instance:
    """The instance with the learned settings that a start may use now."""
    lesson = usable_lesson(
        instance.envelope,
        instance.spec.adapt,
        instance.asked,
        instance.defaults,
        instance.model,
    )
    return replace(instance, changes=lesson.changes, lesson_unused=lesson.unused)


def with_trial(instance: Instance) -> Instance:
    """The instance with the settings that a person asked to try, if somebody did."""
    if instance.trial is None:
        return instance
    return replace(instance, changes=dict(instance.trial.changes), lesson_unused=None)


def after_attempt(instance: Instance) -> Instance:
    """With the learned settings again, where the attempt ran with others for once."""
    attempt = instance.attempt
    if attempt is not None and (attempt.trial is not None or attempt.forgotten):
        return with_lesson(instance)
    return instance


def current(instance: Instance) -> Attempt:
    """The attempt of a state that has one; its absence is a bug of the table."""
    if instance.attempt is None:
        raise LookupError(f"internal error: {instance.state} without an attempt")
    return instance.attempt
