"""Takes over what an earlier daemon launched: no new attempt, no gate, nothing is relaunched."""

from __future__ import annotations

from dataclasses import replace

from vllm_warden.core.lifecycle import requests
from vllm_warden.core.lifecycle.effects import Announce, TakeOver
from vllm_warden.core.lifecycle.events import EngineFound, GateReported, StopRequested
from vllm_warden.core.lifecycle.found import FoundEngine, asks_for_others
from vllm_warden.core.lifecycle.states import Attempt, Instance, State
from vllm_warden.core.lifecycle.steps import Step, moved, waiting


def found(instance: Instance, event: EngineFound) -> Step:
    """Look at engine, model and GPUs first: a later decision needs what the look tells."""
    text = f"taking over attempt {event.found.attempt} of an earlier daemon"
    looking, effects = waiting(instance, event.at_seconds, text)
    made = max(instance.attempts_made, event.found.attempt)
    return replace(looking, found=event.found, attempts_made=made), effects


def take_over(instance: Instance, event: GateReported, taken: FoundEngine) -> Step:
    """It runs already, so whatever the gate would say of a launch does not matter."""
    asked = instance.asked
    changes = {
        name: value for name, value in taken.settings.items() if asked.get(name, value) != value
    }
    then, spec = taken.launched_as, instance.spec
    # what another settings file asked for is no lesson for this one
    outdated = then is not None and (
        then.model != spec.model or asks_for_others(spec.engine, then.engine, asked, taken.settings)
    )
    attempt = Attempt(
        taken.attempt,
        taken.settings,
        changes,
        taken.launched_seconds,
        launch_id=taken.launch_id,
        identity=taken.identity,
        ready_since_seconds=taken.ready_since_seconds,
        forgotten=taken.forgotten or outdated,
        trial=taken.trial,
        free_at_launch_bytes=taken.free_at_launch_bytes,
        total_at_launch_bytes=taken.total_at_launch_bytes,
    )
    text = f"attempt {taken.attempt} of an earlier daemon is taken over: "
    text += "it has ended" if taken.identity is None else f"process {taken.identity.pid}"
    starting = replace(
        moved(instance, State.STARTING, event.at_seconds, text),
        found=None,
        attempt=attempt,
        changes=changes,
        gpu_indices=taken.gpu_indices,
        gate_text=None,
        gate_since_seconds=None,
    )
    effects = (Announce("engine-adopted", text, {"attempt": taken.attempt}), TakeOver(taken))
    if instance.wanted and not taken.stop_asked:
        return starting, effects
    by = instance.wanted_by or "an earlier daemon"
    # one that was told to end in order to start again is still wanted
    wish = StopRequested(event.at_seconds, by, keep_wanted=instance.wanted)
    is_serving = taken.ready_since_seconds is not None
    stop = requests.stop_serving if is_serving else requests.stop_starting
    stopping, ending = stop(starting, wish)
    return stopping, (*effects, *ending)
