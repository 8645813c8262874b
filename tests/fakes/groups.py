"""Attempt groups in memory: a test, or the fake spawner, puts pids in."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_warden.core.launch_id import launch_prefix


class FakeAttemptGroup:
    """Satisfies ``daemon.ports.AttemptGroup``. ``unkillable`` pids survive ``kill`` (D state)."""

    kind = "cgroup"

    def __init__(self, instance: str, attempt: int, launch_prefix: str) -> None:
        self.path = f"/fake/instance-{instance}/attempt-{attempt}-{launch_prefix}"
        self.instance = instance
        self.attempt = attempt
        self.launch_prefix = launch_prefix
        self.members: set[int] = set()
        self.unkillable: set[int] = set()
        self.kills = 0
        self.removed = False

    def pids(self) -> tuple[int, ...]:
        return tuple(sorted(self.members))

    def is_empty(self) -> bool:
        return not self.members

    def kill(self) -> None:
        self.kills += 1
        self.members &= self.unkillable

    def remove(self) -> None:
        self.removed = not self.members


class FakeGroups:
    """Satisfies ``daemon.ports.Groups``."""

    kind = "cgroup"

    def __init__(self) -> None:
        self.made: list[FakeAttemptGroup] = []
        self.oom_kill_count = 0
        self.limit_bytes: int | None = None

    def create(self, instance: str, attempt: int, launch_id: str) -> FakeAttemptGroup:
        group = FakeAttemptGroup(instance, attempt, launch_prefix(launch_id))
        self.made.append(group)
        return group

    def leftovers(self) -> Sequence[FakeAttemptGroup]:
        return [group for group in self.made if group.members]

    def strange(self) -> Sequence[str]:
        return []

    def remove_empty(self) -> None:
        self.made = [group for group in self.made if group.members]

    def oom_kills(self) -> int:
        return self.oom_kill_count

    def memory_limit_bytes(self) -> int | None:
        return self.limit_bytes
