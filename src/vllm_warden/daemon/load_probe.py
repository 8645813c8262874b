"""Sends an idle engine one full batch of short requests, and stops at once for real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from vllm_warden.core.lifecycle.effects import ProbeLoad
from vllm_warden.core.lifecycle.events import LoadProbed
from vllm_warden.core.plan.spec import InstanceSpec
from vllm_warden.daemon.live_attempt import LiveAttempt
from vllm_warden.daemon.shell import Shell

TIMEOUT_SECONDS = 120.0
LOOK_SECONDS = 0.25
LOOKS_UNTIL_BUSY = 2
"""A request of ours that has just been answered is still counted in one look."""
FIRST_TOKEN = 10
"""The ids below are padding, begin and end in most vocabularies."""
LAST_TOKEN = 1000


async def probe_load(shell: Shell, name: str, effect: ProbeLoad) -> None:
    """Answers with LoadProbed, unless the engine ends meanwhile: that tells more."""
    live = shell.live.get(name)
    if live is None or live.number != effect.attempt or live.exited:
        return
    spec = live.spec
    if await _requests(shell, spec) != 0:
        ended = LoadProbed(shell.now(), effect.attempt, 0, "requests came first", busy=True)
    else:
        ended = await _send(shell, live, spec, effect)
    if not live.exited:
        shell.post(name, ended)


async def _send(
    shell: Shell, live: LiveAttempt, spec: InstanceSpec, effect: ProbeLoad
) -> LoadProbed:
    key = spec.secret_environment.get("VLLM_API_KEY") or spec.environment.get("VLLM_API_KEY")
    wanted = prompts(effect.requests, effect.prompt_tokens, effect.vocabulary)
    completions = await shell.ports.health.complete(
        spec.host,
        spec.port,
        spec.model,
        key,
        prompts=wanted,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    tasks = [asyncio.ensure_future(one) for one in completions]
    try:
        is_busy = await _until_answered(shell, live, spec, tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if is_busy:
        problem = "broken off for requests that came meanwhile"
        return LoadProbed(shell.now(), effect.attempt, len(tasks), problem, busy=True)
    problems = [found for task in tasks if (found := task.result()) is not None]
    if not problems:
        return LoadProbed(shell.now(), effect.attempt, len(tasks))
    text = f"{len(problems)} of {len(tasks)} requests were not answered: {problems[0]}"
    return LoadProbed(shell.now(), effect.attempt, len(tasks), text)


async def _until_answered(
    shell: Shell,
    live: LiveAttempt,
    spec: InstanceSpec,
    tasks: Sequence[asyncio.Future[str | None]],
) -> bool:
    """True when somebody else's requests came first, or the engine ended."""
    pending, looks = set(tasks), 0
    while True:
        _, pending = await asyncio.wait(pending, timeout=LOOK_SECONDS)
        if not pending:
            return False
        if live.exited:
            return True
        there = await _requests(shell, spec)
        looks = looks + 1 if there is not None and there > len(pending) else 0
        if looks >= LOOKS_UNTIL_BUSY:
            return True


async def _requests(shell: Shell, spec: InstanceSpec) -> int | None:
    """How many requests the engine has, None where it does not say."""
    counts = await shell.ports.health.metrics(spec.host, spec.port)
    if counts is None or counts.requests_running is None or counts.requests_waiting is None:
        return None
    return counts.requests_running + counts.requests_waiting


def prompts(requests: int, tokens: int, vocabulary: int) -> list[list[int]]:
    """Token ids that differ from the first one on, so that no cached prefix spares any work."""
    span = max(1, min(vocabulary, LAST_TOKEN) - FIRST_TOKEN)
    first = FIRST_TOKEN if vocabulary > FIRST_TOKEN else 0
    return [
        [first + (number + place * (1 + number // span)) % span for place in range(tokens)]
        for number in range(requests)
    ]
