"""The life of one instance: a table keyed by (state, event), and the step that applies it.

Theory of operation. ``step(instance, event)`` looks up the pair and returns the new instance and
the effects that the shell is to carry out. Every pair of a state and an event is in exactly one
of RULES, IGNORED and IMPOSSIBLE (a test proves it). A rule names its action and every state that
it may lead to; the diagram in docs/reference/states.md is drawn from there. Two kinds of events
may be stale and are dropped here, in one place: timers and gate reports by their number, reports
of attempts by the attempt's number. Slow work never runs in an action: an effect starts it, an
event ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from vllm_warden.core.lifecycle import adopting, dying, learned, requests, serving, starting
from vllm_warden.core.lifecycle import events as e
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.lifecycle.steps import Step

# The one place where an event's type is erased: the table promises the pair.
Action = Callable[[Instance, Any], Step]


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens, and every state it may end in; ``stays`` adds the one it began in."""

    action: Action
    to: tuple[State, ...] = ()
    stays: bool = False


STOPPED, WAITING, STARTING = State.STOPPED, State.WAITING, State.STARTING
READY, UNREADY, STOPPING = State.READY, State.UNREADY, State.STOPPING
DIAGNOSING, BACKOFF, HELD, FAILED = State.DIAGNOSING, State.BACKOFF, State.HELD, State.FAILED

_IDLE = (STOPPED, WAITING, BACKOFF, HELD, FAILED)
_RUNNING = (STARTING, READY, UNREADY)
_AFTER_DEATH = (WAITING, BACKOFF, HELD, FAILED, STOPPED)

_TABLE: list[tuple[tuple[State, ...], type[e.Event], Rule]] = [
    # what people ask
    ((STOPPED, HELD, FAILED, BACKOFF), e.StartRequested, Rule(requests.start, (WAITING,))),
    (
        (STOPPED, HELD, FAILED, BACKOFF, WAITING),
        e.RestartRequested,
        Rule(requests.start, (WAITING,)),
    ),
    ((STOPPED, HELD, FAILED, BACKOFF), e.ResumeRequested, Rule(requests.start, (WAITING,))),
    ((STOPPING,), e.StartRequested, Rule(requests.want, stays=True)),
    ((STOPPING,), e.RestartRequested, Rule(requests.want, stays=True)),
    ((STOPPING,), e.ResumeRequested, Rule(requests.want, stays=True)),
    ((STOPPING,), e.HoldRequested, Rule(requests.hold_stopping, stays=True)),
    ((DIAGNOSING,), e.StartRequested, Rule(requests.want, stays=True)),
    ((DIAGNOSING,), e.RestartRequested, Rule(requests.want, stays=True)),
    (
        (WAITING, BACKOFF, HELD, FAILED),
        e.StopRequested,
        Rule(requests.stop_nothing, (STOPPED,), stays=True),
    ),
    ((STARTING,), e.StopRequested, Rule(requests.stop_starting, (STOPPING,))),
    ((READY, UNREADY), e.StopRequested, Rule(requests.stop_serving, (STOPPING,))),
    ((STARTING,), e.RestartRequested, Rule(requests.stop_starting, (STOPPING,))),
    ((READY, UNREADY), e.RestartRequested, Rule(requests.stop_serving, (STOPPING,))),
    ((STOPPING,), e.StopRequested, Rule(requests.stop_again, stays=True)),
    ((DIAGNOSING,), e.StopRequested, Rule(requests.stop_diagnosing, stays=True)),
    (
        (*_RUNNING, DIAGNOSING),
        e.HoldRequested,
        Rule(requests.hold_running, stays=True),
    ),
    ((STOPPED, BACKOFF, HELD, FAILED), e.HoldRequested, Rule(requests.hold_idle, (HELD,))),
    ((WAITING,), e.HoldRequested, Rule(requests.hold_idle, (HELD,), stays=True)),
    (_RUNNING, e.ResumeRequested, Rule(requests.resume_running, stays=True)),
    ((DIAGNOSING,), e.ResumeRequested, Rule(requests.resume_running, stays=True)),
    (tuple(State), e.ForgetRequested, Rule(learned.forget, stays=True)),
    (tuple(State), e.AcceptRequested, Rule(learned.accept, stays=True)),
    # the gate and the launch
    ((STOPPED, HELD), e.EngineFound, Rule(adopting.found, (WAITING,))),
    (
        (WAITING,),
        e.GateReported,
        Rule(starting.gate_reported, (STARTING, STOPPING, HELD, FAILED), stays=True),
    ),
    ((WAITING,), e.TimerElapsed, Rule(starting.look_again, stays=True)),
    ((BACKOFF,), e.TimerElapsed, Rule(starting.backoff_elapsed, (WAITING,))),
    ((STARTING,), e.Launched, Rule(starting.launched, stays=True)),
    ((STOPPING,), e.Launched, Rule(starting.launched, stays=True)),
    ((STARTING,), e.LaunchFailed, Rule(starting.launch_failed, (FAILED, BACKOFF, HELD))),
    # the running engine
    (_RUNNING, e.PhaseEntered, Rule(starting.phase_entered, stays=True)),
    ((STARTING,), e.NotReadyYet, Rule(starting.not_ready_yet, stays=True)),
    ((STARTING, UNREADY), e.BecameReady, Rule(serving.became_ready, (READY,))),
    ((READY,), e.BecameUnready, Rule(serving.became_unready, (UNREADY,))),
    ((READY, UNREADY), e.RequestsServed, Rule(serving.requests_served, stays=True)),
    ((READY, UNREADY), e.LoadProbed, Rule(serving.load_probed, stays=True)),
    # the end
    (_RUNNING, e.EngineLost, Rule(dying.engine_lost, (DIAGNOSING,))),
    ((DIAGNOSING,), e.EngineLost, Rule(dying.another_lost, stays=True)),
    (_RUNNING, e.Stalled, Rule(dying.stalled, (DIAGNOSING,))),
    (_RUNNING, e.ProcessExited, Rule(dying.exited, (DIAGNOSING,))),
    ((DIAGNOSING,), e.ProcessExited, Rule(dying.exited_while_diagnosing, stays=True)),
    ((DIAGNOSING,), e.TimerElapsed, Rule(dying.last_words_elapsed, stays=True)),
    ((DIAGNOSING,), e.EvidenceGathered, Rule(dying.treat, _AFTER_DEATH)),
    ((STOPPING,), e.TimerElapsed, Rule(requests.stop_step_elapsed, stays=True)),
    ((STOPPING,), e.ProcessExited, Rule(dying.exited_while_stopping, stays=True)),
    ((STOPPING,), e.LaunchFailed, Rule(requests.nothing_to_stop, stays=True)),
    ((STOPPING,), e.RequestsLeft, Rule(requests.requests_left, stays=True)),
    ((STOPPING,), e.AttemptReleased, Rule(dying.released, (STOPPED, WAITING, HELD))),
]

RULES: Mapping[tuple[State, type[e.Event]], Rule] = MappingProxyType(
    {
        (state, event): replace(rule, to=(state, *rule.to)) if rule.stays else rule
        for states, event, rule in _TABLE
        for state in states
    }
)

_IGNORED: dict[type[e.Event], tuple[State, ...]] = {
    # already so
    e.StartRequested: (WAITING, *_RUNNING),
    e.StopRequested: (STOPPED,),
    e.ResumeRequested: (WAITING,),
    # late reports of an attempt that is being ended, or has ended
    e.PhaseEntered: (*_IDLE, STOPPING, DIAGNOSING),
    e.BecameReady: (*_IDLE, READY, STOPPING, DIAGNOSING),
    e.NotReadyYet: (*_IDLE, READY, UNREADY, STOPPING, DIAGNOSING),
    e.BecameUnready: (*_IDLE, STARTING, UNREADY, STOPPING, DIAGNOSING),
    e.RequestsServed: (*_IDLE, STARTING, STOPPING, DIAGNOSING),
    e.LoadProbed: (*_IDLE, STARTING, STOPPING, DIAGNOSING),
    e.EngineLost: (*_IDLE, STOPPING),
    e.Stalled: (*_IDLE, STOPPING, DIAGNOSING),
    e.ProcessExited: _IDLE,
    e.RequestsLeft: (*_IDLE, DIAGNOSING),
    e.Launched: (DIAGNOSING, *_IDLE),
    e.AttemptReleased: (*_IDLE, DIAGNOSING),
    # a look that was asked for before a stop or hold
    e.GateReported: (STOPPED, BACKOFF, HELD, FAILED, STOPPING, DIAGNOSING, *_RUNNING),
    e.TimerElapsed: (STOPPED, HELD, FAILED, *_RUNNING),
}
IGNORED: frozenset[tuple[State, type[e.Event]]] = frozenset(
    (state, event) for event, states in _IGNORED.items() for state in states
)

_IMPOSSIBLE: dict[type[e.Event], tuple[State, ...]] = {
    e.EngineFound: (WAITING, BACKOFF, FAILED, *_RUNNING, STOPPING, DIAGNOSING),
    e.Launched: (READY, UNREADY),
    e.LaunchFailed: (*_IDLE, READY, UNREADY, DIAGNOSING),
    e.AttemptReleased: _RUNNING,
    e.RequestsLeft: _RUNNING,
    e.EvidenceGathered: (*_IDLE, *_RUNNING, STOPPING),
}
IMPOSSIBLE: frozenset[tuple[State, type[e.Event]]] = frozenset(
    (state, event) for event, states in _IMPOSSIBLE.items() for state in states
)
"""Pairs that only a bug of the shell can produce; reported, never fatal in production."""


def step(instance: Instance, event: e.Event) -> Step:
    """Apply one event. Stale and ignored events return the instance as it was, without effects."""
    if _is_stale(instance, event):
        return instance, ()
    rule = RULES.get((instance.state, type(event)))
    if rule is None:
        return instance, ()
    return rule.action(instance, event)


def is_impossible(instance: Instance, event: e.Event) -> bool:
    """True when the shell has a bug: a fresh event that this state cannot get."""
    return (instance.state, type(event)) in IMPOSSIBLE and not _is_stale(instance, event)


def _is_stale(instance: Instance, event: e.Event) -> bool:
    if isinstance(event, e.TimerElapsed | e.GateReported):
        return event.number != instance.timer
    if isinstance(event, e.AttemptEvent):
        return instance.attempt is None or event.attempt != instance.attempt.number
    return False
