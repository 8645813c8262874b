"""Removes the temporary directories of attempts that an earlier daemon left behind."""

from __future__ import annotations

import structlog

from vllm_warden.daemon.directories import remove_temporary, temporary_prefixes
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import Lane, LateError

log = structlog.get_logger(__name__)

LOOK_SECONDS = 5.0
REMOVE_SECONDS = 600.0


async def sweep_temporary(shell: Shell) -> None:
    """To be called before anything is launched; the removal itself goes on in the background.

    What is there by then and belongs to no living group is nobody's.
    """
    lane = Lane("the removal of old temporary directories", LOOK_SECONDS)
    state = shell.state_directory
    try:
        found = await lane.call(lambda: temporary_prefixes(state))
    except (LateError, OSError) as error:
        log.warning("temporary-directories-remain", error=str(error))
        return
    found -= {group.launch_prefix for group in shell.ports.groups.leftovers()}
    if found:
        shell.start(_remove(shell, lane, found))


async def _remove(shell: Shell, lane: Lane, launch_prefixes: set[str]) -> None:
    """A lane of its own: what takes minutes here must not hold up a launch or its log."""
    state = shell.state_directory
    try:
        for prefix in sorted(launch_prefixes):
            problem = await lane.call(lambda: remove_temporary(state, prefix), REMOVE_SECONDS)  # noqa: B023
            if problem is not None:
                log.warning("temporary-directory-remains", error=problem)
    except LateError as late:
        log.warning("temporary-directories-remain", error=str(late))
    finally:
        lane.close()
