"""What people may do with learned settings: forget them, or accept them as the asked ones."""

from __future__ import annotations

from dataclasses import replace

from vllm_warden.core.decide.envelope import Envelope, accepted
from vllm_warden.core.lifecycle.effects import Announce, NoteForgotten
from vllm_warden.core.lifecycle.events import AcceptRequested, ForgetRequested
from vllm_warden.core.lifecycle.states import RUNNING, Instance, State
from vllm_warden.core.lifecycle.steps import Step
from vllm_warden.core.model import Settings

_ALIVE = RUNNING | {State.STOPPING, State.DIAGNOSING}


def forget(instance: Instance, event: ForgetRequested) -> Step:
    """Nothing learned is used at the next launch; a running engine keeps what it runs with."""
    bare = replace(
        instance, envelope=Envelope(instance.envelope.key), envelopes=(), observations=()
    )
    text = f"learned settings forgotten by {event.by}: the next launch uses the asked ones"
    told = (Announce("settings-forgotten", text),)
    if instance.state in _ALIVE and instance.attempt is not None:
        attempt = replace(instance.attempt, forgotten=True)
        return replace(bare, attempt=attempt), (NoteForgotten(attempt.number), *told)
    return replace(bare, changes={}, lesson_unused=None), told


def accept(instance: Instance, event: AcceptRequested) -> Step:
    """The settings in force are the asked ones from now on; nothing is relaunched for it."""
    names = ", ".join(f"{name} {value}" for name, value in instance.changes.items())
    spec = replace(instance.spec, engine=dict(event.engine))
    attempt = instance.attempt
    taken = replace(
        instance,
        spec=spec,
        envelope=accepted(instance.envelope, replace(instance, spec=spec).asked),
        envelopes=_with(instance.envelopes, instance.envelope),
        changes=_other_than(event.engine, instance.changes),
        attempt=attempt
        and replace(attempt, changes=_other_than(event.engine, attempt.changes), trial=None),
    )
    text = f"settings in force accepted by {event.by} as the asked ones: {names}"
    return taken, (Announce("settings-accepted", text, dict(instance.changes)),)


def _other_than(engine: Settings, changes: Settings) -> Settings:
    return {name: value for name, value in changes.items() if engine.get(name) != value}


def _with(known: tuple[Envelope, ...], envelope: Envelope) -> tuple[Envelope, ...]:
    return (*(one for one in known if one.key != envelope.key), envelope)
