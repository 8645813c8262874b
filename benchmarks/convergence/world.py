"""The host while a scenario is played: its clock, and memory that belongs to others."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.convergence.scenario import Neighbour, Scenario, Wall

NEIGHBOUR_PID = 31337
REMAINS_PID = 4242
GONE_AFTER_KILL_SECONDS = 4.0
"""The driver gives a killed process's memory back a little later."""


@dataclass(slots=True)
class World:
    """``now`` is seconds since the first start was asked for; ``others`` bytes on GPU 0."""

    scenario: Scenario
    now: float = 0.0
    others: int = 0
    _fired: set[int] = field(default_factory=set)
    _killed_at: float | None = None

    def __post_init__(self) -> None:
        if self.scenario.neighbour is not None:
            self.others = self.scenario.neighbour.start_bytes

    def pass_to(self, seconds: float) -> None:
        """Let time go on, and with it what happens at times."""
        self.now = max(self.now, seconds)
        neighbour = self.scenario.neighbour
        if neighbour is None:
            return
        for at, move in enumerate(neighbour.moves):
            due = move.at_seconds is not None and move.at_seconds <= self.now
            if due and at not in self._fired:
                self._fired.add(at)
                self.others = move.to_bytes
        if self._killed_at is not None and self.now >= self._killed_at + GONE_AFTER_KILL_SECONDS:
            self.others = 0

    def reach(self, wall: Wall) -> None:
        """An attempt has come to this stage; some things happen exactly then, once."""
        neighbour = self.scenario.neighbour
        for at, move in enumerate(neighbour.moves if neighbour else ()):
            if move.at_wall is wall and at not in self._fired:
                self._fired.add(at)
                self.others = move.to_bytes

    def next_move_seconds(self) -> float | None:
        """When something will change by itself, None when nothing will."""
        neighbour = self.scenario.neighbour
        times = [
            move.at_seconds
            for at, move in enumerate(neighbour.moves if neighbour else ())
            if move.at_seconds is not None and at not in self._fired
        ]
        return min(times, default=None)

    @property
    def kind(self) -> str:
        neighbour = self.scenario.neighbour
        return "" if neighbour is None or not self.others else neighbour.kind

    def kill_remains(self) -> None:
        """End what an earlier attempt left: only a process of ours can be ended."""
        if self.kind == "remains" and self._killed_at is None:
            self._killed_at = self.now


def steady_others(neighbour: Neighbour | None) -> int:
    return 0 if neighbour is None else neighbour.final_bytes
