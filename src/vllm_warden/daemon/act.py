"""Carries out effects: one function per effect type, found by a table."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any

from vllm_warden.core.lifecycle import effects as fx
from vllm_warden.daemon.adopt import take_over
from vllm_warden.daemon.drain import follow_requests
from vllm_warden.daemon.launch import launch
from vllm_warden.daemon.load_probe import probe_load
from vllm_warden.daemon.look import look, own_remains
from vllm_warden.daemon.release import collect, release
from vllm_warden.daemon.shell import Shell


def _observe_gate(shell: Shell, name: str, effect: fx.ObserveGate) -> None:
    if not shell.closing or shell.instance(name).found is not None:
        shell.start(look(shell, name, effect.number))


def _end_remains(shell: Shell, name: str, _: fx.EndRemains) -> None:
    for group in own_remains(shell, name):
        group.kill()


def _launch(shell: Shell, name: str, effect: fx.Launch) -> None:
    _begin(shell, name, launch(shell, name, effect))


def _take_over(shell: Shell, name: str, effect: fx.TakeOver) -> None:
    _begin(shell, name, take_over(shell, name, effect))


def _begin(shell: Shell, name: str, work: Coroutine[object, object, None]) -> None:
    """Of an instance one at a time; an end of the daemon and of the attempt waits for it."""
    task = shell.start(work)
    shell.launching[name] = task
    task.add_done_callback(lambda _: shell.launching.pop(name, None))


def _signal(shell: Shell, name: str, effect: fx.Signal) -> None:
    """What is about to be launched or taken over gets it then."""
    begun = shell.launching.get(name)
    if begun is None:
        _signal_now(shell, name, effect)
    else:
        begun.add_done_callback(lambda _: _signal_now(shell, name, effect))


def _signal_now(shell: Shell, name: str, effect: fx.Signal) -> None:
    live = shell.live.get(name)
    if live is not None and live.number == effect.attempt and live.child is not None:
        shell.recorder.note_attempt(name, effect.attempt, {"stop_asked": True})
        live.child.signal(effect.number)


def _follow_requests(shell: Shell, name: str, effect: fx.FollowRequests) -> None:
    shell.start(follow_requests(shell, name, effect.attempt))


def _release(shell: Shell, name: str, effect: fx.ReleaseAttempt) -> None:
    shell.start(release(shell, name, effect.attempt))


def _collect(shell: Shell, name: str, effect: fx.CollectEvidence) -> None:
    shell.start(collect(shell, name, effect.attempt))


def _probe_load(shell: Shell, name: str, effect: fx.ProbeLoad) -> None:
    shell.start(probe_load(shell, name, effect))


def _arm_timer(shell: Shell, name: str, effect: fx.ArmTimer) -> None:
    shell.timers.arm(name, effect.number, effect.after_seconds)


def _note_forgotten(shell: Shell, name: str, effect: fx.NoteForgotten) -> None:
    shell.recorder.note_attempt(name, effect.attempt, {"forgotten": True})


def _record_incident(shell: Shell, name: str, effect: fx.RecordIncident) -> None:
    shell.recorder.open_incident(name, effect)


def _recover_incident(shell: Shell, name: str, effect: fx.RecoverIncident) -> None:
    shell.recorder.recover_incident(name, effect.recovery)


def _resolve_incident(shell: Shell, name: str, effect: fx.ResolveIncident) -> None:
    shell.recorder.resolve_incident(name, effect.resolution)


def _announce(shell: Shell, name: str, effect: fx.Announce) -> None:
    shell.recorder.announce(name, effect)


# The one place where an effect's type is erased: the table promises the pair.
ACTIONS: Mapping[type[fx.Effect], Callable[[Shell, str, Any], None]] = MappingProxyType(
    {
        fx.ObserveGate: _observe_gate,
        fx.EndRemains: _end_remains,
        fx.Launch: _launch,
        fx.TakeOver: _take_over,
        fx.Signal: _signal,
        fx.FollowRequests: _follow_requests,
        fx.ReleaseAttempt: _release,
        fx.CollectEvidence: _collect,
        fx.ProbeLoad: _probe_load,
        fx.ArmTimer: _arm_timer,
        fx.NoteForgotten: _note_forgotten,
        fx.RecordIncident: _record_incident,
        fx.RecoverIncident: _recover_incident,
        fx.ResolveIncident: _resolve_incident,
        fx.Announce: _announce,
    }
)


def perform(shell: Shell, name: str, effect: fx.Effect) -> None:
    """Carry out one effect; anything slow is started and ends in an event."""
    ACTIONS[type(effect)](shell, name, effect)
