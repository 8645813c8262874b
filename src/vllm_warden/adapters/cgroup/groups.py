"""Makes attempt cgroups below the warden's root; the tree itself is the registry of engines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vllm_warden.adapters.cgroup.attempt import CgroupAttempt
from vllm_warden.adapters.cgroup.memory import memory_limit_bytes, oom_kills
from vllm_warden.adapters.cgroup.mount import own_cgroup2, own_memory_v1
from vllm_warden.adapters.cgroup.naming import (
    INSTANCE,
    AttemptName,
    attempts_below,
    nameless_below,
    others_below,
)
from vllm_warden.adapters.cgroup.place import earlier_places, find_place
from vllm_warden.adapters.cgroup.process_group import ProcessGroups
from vllm_warden.core.launch_id import launch_prefix

PIDS_TOLD = 8


class CgroupGroups:
    """Satisfies ``daemon.ports.Groups``."""

    kind = "cgroup"

    def __init__(
        self, root: Path, earlier_roots: Sequence[Path] = (), memory_v1: Path | None = None
    ) -> None:
        self.root = root
        self._roots = tuple(dict.fromkeys((root, *earlier_roots)))
        self._memory_v1 = memory_v1

    def create(self, instance: str, attempt: int, launch_id: str) -> CgroupAttempt:
        """Raises OSError when the cgroup cannot be made."""
        name = AttemptName(instance, attempt, launch_prefix(launch_id))
        directory = name.below(self.root)
        directory.mkdir(parents=True, exist_ok=True)
        return CgroupAttempt(directory, instance, attempt, name.launch_prefix)

    def leftovers(self) -> Sequence[CgroupAttempt]:
        """What lies below an instance's directory is ours, whatever it is called."""
        return [group for group in self._all() if not group.is_empty()]

    def strange(self) -> Sequence[str]:
        found = []
        for path in (path for root in self._roots for path in others_below(root)):
            group = CgroupAttempt(path, "", 0, "")
            is_instance = INSTANCE.fullmatch(path.name) is not None
            pids = group.own_pids() if is_instance else group.pids()
            if pids:
                named = ", ".join(map(str, pids[:PIDS_TOLD]))
                more = f" and {len(pids) - PIDS_TOLD} more" if len(pids) > PIDS_TOLD else ""
                found.append(f"{path}: process {named}{more}")
        return found

    def remove_empty(self) -> None:
        for group in self._all():
            if group.is_empty():
                group.remove()

    def _all(self) -> list[CgroupAttempt]:
        found = []
        for root in self._roots:
            for name in attempts_below(root):
                whose = (name.instance, name.attempt, name.launch_prefix)
                found.append(CgroupAttempt(name.below(root), *whose))
            for instance, path in nameless_below(root):
                found.append(CgroupAttempt(path, instance, 0, ""))
        return found

    def oom_kills(self) -> int:
        return oom_kills(self.root, self._memory_v1)

    def memory_limit_bytes(self) -> int | None:
        return memory_limit_bytes(self.root, self._memory_v1)


def open_groups(state_directory: Path) -> CgroupGroups | ProcessGroups:
    """Cgroups where cgroup2 is writable, otherwise sessions remembered in the state directory."""
    place = find_place(state_directory)
    memory_v1 = own_memory_v1()
    if place is None:
        return ProcessGroups(state_directory / "groups", own_cgroup2(), memory_v1)
    return CgroupGroups(place, earlier_places(state_directory), memory_v1)
