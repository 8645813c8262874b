"""Ends what an earlier daemon left in our own tree, and names what cannot be proven to be ours."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import structlog

from vllm_warden.core.launch_id import launch_prefix
from vllm_warden.core.lifecycle.effects import Announce
from vllm_warden.core.lifecycle.found import FoundEngine
from vllm_warden.daemon.ports import AttemptGroup
from vllm_warden.daemon.remains import follow_remains
from vllm_warden.daemon.shell import Shell

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.002
LEFTOVER_SECONDS = 5.0
STRANGE_LOOK_SECONDS = 60.0
STRANGE = "strange-groups"


async def end_leftovers(shell: Shell, adopted: Mapping[str, FoundEngine]) -> None:
    """End what an earlier daemon of this state directory left and nobody takes over.

    All of it lies in groups below our own root and an instance's directory, so it is ours.
    """
    groups = shell.ports.groups
    groups.remove_empty()
    leftovers = [one for one in groups.leftovers() if not _goes_on(one, adopted)]
    ended = [(group, group.pids()) for group in leftovers]
    for group in leftovers:
        group.kill()
    deadline = shell.now() + LEFTOVER_SECONDS
    while shell.now() < deadline:
        if all(group.is_empty() for group in leftovers):
            break
        await asyncio.sleep(POLL_SECONDS)
    for group, pids in ended:
        _tell(shell, group, pids)
    if _name_strange(shell):
        shell.start(_follow_strange(shell))


def _goes_on(group: AttemptGroup, adopted: Mapping[str, FoundEngine]) -> bool:
    """The number alone does not say it: a second launch may bear the same."""
    found = adopted.get(group.instance)
    if found is None:
        return False
    known = (found.attempt, launch_prefix(found.launch_id))
    return (group.attempt, group.launch_prefix) == known


def _tell(shell: Shell, group: AttemptGroup, pids: Sequence[int]) -> None:
    name = group.instance
    whose = f"attempt {group.attempt}" if group.launch_prefix else "no attempt by its name"
    ended = "1 process" if len(pids) == 1 else f"{len(pids)} processes"
    data = {"attempt": group.attempt, "pids": list(pids), "group": group.path}
    if group.is_empty():
        group.remove()
        text = f"ended what an earlier daemon had left: {ended} of {whose}"
    else:
        left = group.pids()
        text = f"{len(left)} of {ended} of {whose}, left by an earlier daemon, do not end"
        shell.start(follow_remains(shell, group))
    log.warning("leftover-ended", instance=name, pids=data["pids"])
    shell.recorder.announce(name, Announce("leftovers-ended", text, data))


def _name_strange(shell: Shell) -> bool:
    """True while there is something in our tree that no daemon of ours has made."""
    found = shell.ports.groups.strange()
    text = None
    if found:
        text = (
            f"in the warden's own tree lies what no attempt has made, and what is therefore left "
            f"alone: {'; '.join(found)}; look at it, then end it by hand"
        )
    shell.recorder.set_condition(STRANGE, text)
    return bool(found)


async def _follow_strange(shell: Shell) -> None:
    while True:
        await asyncio.sleep(STRANGE_LOOK_SECONDS)
        if not _name_strange(shell):
            return
