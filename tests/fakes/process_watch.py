"""A process tree as a test describes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from vllm_warden.core.diagnose.evidence import HostLimits
from vllm_warden.core.model import RemainingProcess


class FakeProcessWatch:
    """Satisfies ``daemon.ports.ProcessWatch``."""

    def __init__(self) -> None:
        self.titles: dict[int, str] = {}
        self.listening: set[tuple[int, int]] = set()
        """(pid, port) pairs."""
        self.host_limits = HostLimits()
        self.address_space: dict[int, int] = {}
        self.stuck: dict[int, str] = {}
        """Kernel functions in which processes wait."""
        self._watched: dict[int, list[Callable[[], None]]] = {}

    def engine_processes(self, pids: Sequence[int], parent_pid: int) -> dict[int, str]:
        return {pid: self.titles[pid] for pid in pids if pid in self.titles and pid != parent_pid}

    def watch_end(self, pid: int, on_end: Callable[[], None]) -> bool:
        if pid not in self.titles:
            return False
        self._watched.setdefault(pid, []).append(on_end)
        return True

    def end(self, pid: int) -> None:
        """Let a process die."""
        self.titles.pop(pid, None)
        for on_end in self._watched.pop(pid, []):
            asyncio.get_running_loop().call_soon(on_end)

    def listens(self, pids: Sequence[int], port: int) -> bool:
        return any((pid, port) in self.listening for pid in pids)

    def limits(self, pid: int) -> HostLimits:
        return self.host_limits if pid in self.titles or not self.titles else HostLimits()

    def remaining(self, pids: Sequence[int]) -> Sequence[RemainingProcess]:
        names, stuck = self.titles, self.stuck
        return [RemainingProcess(pid, names[pid], stuck.get(pid)) for pid in pids if pid in names]

    def address_space_bytes(self, pids: Sequence[int]) -> int | None:
        return max(
            (self.address_space[pid] for pid in pids if pid in self.address_space), default=None
        )
