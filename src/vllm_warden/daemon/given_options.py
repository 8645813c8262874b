"""Asks the engine's installation whether it has the options that one launch is to get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from vllm_warden.api.service import ChangeRequest, Refused
from vllm_warden.config.knob_bounds import LIMITED
from vllm_warden.config.launch_settings import unknown_option_problem
from vllm_warden.core.plan.spec import EngineFacts
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

ASK_SECONDS = 6.0
"""``vllm serve --help`` imports torch; whoever waits for the answer gives up after ten."""


async def unknown_to_the_engine(shell: Shell, request: ChangeRequest) -> Refused | None:
    """Refused where the engine would not start with them; None too where it cannot be asked."""
    given = cast("Mapping[str, object]", request.options.get("set") or {})
    if not given.keys() - LIMITED:
        return None
    spec = shell.instance(request.instance).spec
    try:
        facts: EngineFacts = await shell.lanes.probes.call(
            lambda: shell.ports.engine_probe.facts(spec.command, with_flags=True), ASK_SECONDS
        )
    except LateError:
        return None
    problem = unknown_option_problem(given, facts)
    return None if problem is None else Refused(400, *problem)
