"""Starts nothing: children that live until a test ends them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from tests.fakes.groups import FakeAttemptGroup
from vllm_warden.core.model import ProcessIdentity
from vllm_warden.core.plan.spec import LaunchPlan

_PIDS = itertools.count(5_000_000)  # beyond any pid that Linux gives out


class FakeChild:
    """Satisfies ``daemon.ports.Child``; ``exit`` plays its end."""

    def __init__(self, plan: LaunchPlan, group: FakeAttemptGroup, output_fd: int) -> None:
        self.identity = ProcessIdentity(pid=next(_PIDS), start_ticks=1, boot_id="fake")
        self.plan = plan
        self.group = group
        self.output_fd = output_fd
        self.signals: list[int] = []
        self.on_signal: Callable[[int], None] | None = None
        self._status: tuple[int | None] | None = None
        self._on_exit: Callable[[int | None], None] | None = None

    def signal(self, number: int) -> bool:
        if self._status is not None:
            return False
        self.signals.append(number)
        if self.on_signal is not None:
            self.on_signal(number)
        return True

    def watch_exit(self, on_exit: Callable[[int | None], None]) -> None:
        self._on_exit = on_exit
        self._deliver()

    def exit(self, status: int | None, *, leaves_orphans: bool = False) -> None:
        """End this process, and by default the rest of its group with it."""
        if self._status is not None:
            return
        self._status = (status,)
        self.group.members.discard(self.identity.pid)
        if not leaves_orphans:
            self.group.members.clear()
        self._deliver()

    def _deliver(self) -> None:
        if self._on_exit is not None and self._status is not None:
            on_exit, self._on_exit = self._on_exit, None
            asyncio.get_running_loop().call_soon(on_exit, self._status[0])


class FakeSpawner:
    """Satisfies ``daemon.ports.Spawner``; raises ``error`` when a test has set it."""

    def __init__(self) -> None:
        self.children: list[FakeChild] = []
        self.error: Exception | None = None
        self.on_spawn: Callable[[FakeChild], None] | None = None

    def spawn(self, plan: LaunchPlan, group: FakeAttemptGroup, output_fd: int) -> FakeChild:
        if self.error is not None:
            raise self.error
        child = FakeChild(plan, group, output_fd)
        group.members.add(child.identity.pid)
        self.children.append(child)
        if self.on_spawn is not None:
            self.on_spawn(child)
        return child
