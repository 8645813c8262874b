"""The built-in load of an idle engine: when it is sent, withheld, and what its end means."""

from __future__ import annotations

from dataclasses import replace

from vllm_warden.core.decide.knobs import effective
from vllm_warden.core.lifecycle.effects import Announce, ProbeLoad
from vllm_warden.core.lifecycle.events import LoadProbed, RequestsServed
from vllm_warden.core.lifecycle.probe import ANSWER_TOKENS, Probe
from vllm_warden.core.lifecycle.states import Attempt, Instance
from vllm_warden.core.lifecycle.steps import Step, current
from vllm_warden.core.lifecycle.trial import TrialKind

REQUESTS_MAX = 256
"""Enough for a batch of any usual size; each one is a connection of the daemon's."""
TOKENS_UNKNOWN = 2048
"""max_num_batched_tokens where neither the operator nor our table names one."""
VOCABULARY_UNKNOWN = 1000


def may_come(instance: Instance, attempt: Attempt) -> bool:
    """Whether this attempt is to be probed: allowed, not done yet, and something to be learned."""
    given = attempt.trial is not None and attempt.trial.kind is TrialKind.GIVEN
    return (
        instance.spec.restart.load_probe
        and attempt.probe is not Probe.OVER
        and instance.held_by is None
        and not given
        and not attempt.forgotten
    )


def probed_if_idle(instance: Instance, event: RequestsServed) -> Step:
    """Announce and send it, or say why not; never while requests run or wait."""
    attempt = current(instance)
    if not event.idle or attempt.probe is Probe.SENT:
        return instance, ()
    if (why := _risk(instance, attempt)) is not None:
        withheld = replace(instance, attempt=replace(attempt, probe=Probe.OVER))
        text = f"no load probe for attempt {attempt.number}: {why}"
        return withheld, (Announce("load-probe-withheld", text),)
    effect = _load(instance, attempt)
    text = (
        f"attempt {attempt.number} has been idle: a load probe of {effect.requests} requests with "
        f"{effect.prompt_tokens} tokens each is sent to prove its settings"
    )
    sent = replace(instance, attempt=replace(attempt, probe=Probe.SENT))
    data = {"requests": effect.requests, "prompt_tokens": effect.prompt_tokens}
    return sent, (Announce("load-probe-started", text, data), effect)


def not_proven(instance: Instance, event: LoadProbed) -> Step:
    """Broken off: it may come again. Not all answered: it proves nothing, and is not repeated."""
    attempt = current(instance)
    noted = replace(
        attempt,
        probe=Probe.DUE if event.busy else Probe.OVER,
        probe_requests=attempt.probe_requests + event.sent,
    )
    text = f"the load probe of attempt {attempt.number} proves nothing: {event.problem}"
    return replace(instance, attempt=noted), (Announce("load-probe-ended", text),)


def _risk(instance: Instance, attempt: Attempt) -> str | None:
    """Why a full batch may kill the engine; on a GPU what is not known is a risk too."""
    if not instance.spec.gpus:
        return None
    if attempt.slack is None:
        return "what is left of the GPU for a full batch is not known"
    return attempt.slack.text or None


def _load(instance: Instance, attempt: Attempt) -> ProbeLoad:
    """One batch: as many requests as run at once, and together as many tokens as it takes."""
    settings = effective(attempt.settings, instance.defaults, instance.model)
    requests = int(max(1, min(settings.get("max_num_seqs", REQUESTS_MAX), REQUESTS_MAX)))
    tokens = int(settings.get("max_num_batched_tokens", TOKENS_UNKNOWN)) // requests
    if (length := settings.get("max_model_len")) is not None:
        tokens = min(tokens, int(length) - ANSWER_TOKENS)
    vocabulary = instance.model.vocab_size or VOCABULARY_UNKNOWN
    return ProbeLoad(attempt.number, requests, max(1, tokens), vocabulary)
