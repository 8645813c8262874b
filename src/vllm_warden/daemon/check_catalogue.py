"""Looks, once for each engine version, whether the diagnosis would still understand its words."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_warden.core.diagnose.reliance import gone, names_relied_on
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError


def check_catalogue_once(shell: Shell, command: Sequence[str], version: str | None) -> None:
    """Beside the loop: reading an installed vLLM takes seconds, and no launch waits for it."""
    if version is not None and version not in shell.checked_versions:
        shell.checked_versions.add(version)
        shell.start(_check(shell, command, version))


async def _check(shell: Shell, command: Sequence[str], version: str) -> None:
    texts, functions = names_relied_on()
    try:
        absent = await shell.lanes.sources.call(
            lambda: shell.ports.absent_from_source(command, texts, functions)
        )
    except LateError:
        return
    missing = gone(version, absent) if absent is not None else ()
    dead = sum(one.whole for one in missing)
    if dead:
        shell.recorder.set_condition(
            f"catalogue-{version}",
            f"vLLM {version} lacks texts that {dead} rows of the failure catalogue look for: such"
            " failures may be called unknown; vllm-warden doctor lists them",
        )
