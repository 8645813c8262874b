"""Judges what was played on the hidden truth: solved, rightly given up, and each single move."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from benchmarks.held_back import oracle
from benchmarks.held_back.diary import Attempt
from benchmarks.held_back.play import Played
from benchmarks.held_back.rooms import Wall, rooms
from benchmarks.held_back.truth import MIB

SAME_BYTES = 8 * MIB
"""A relaunch that changes what is missing at the wall by less has not moved it."""


@dataclass(frozen=True, slots=True)
class Mark:
    """``needed`` relaunches are the least possible, None where nothing within the bounds works."""

    played: Played
    needed: int | None
    relaunches: int
    wrong: int
    idle: int
    out: bool

    @property
    def feasible(self) -> bool:
        return self.needed is not None or self.played.up

    @property
    def solved(self) -> bool:
        return self.feasible and self.played.up

    @property
    def gave_up(self) -> bool:
        return not self.feasible and self.played.stopped

    @property
    def is_missed(self) -> bool:
        return not (self.solved or self.gave_up) or self.out or self.wrong > 0


def mark(played: Played) -> Mark:
    scenario = played.scenario
    walked = walls_of(played)
    wrong, idle = _moves(played, walked)
    return Mark(
        played=played,
        needed=oracle.relaunches(scenario),
        relaunches=max(0, len(walked) - 1),
        wrong=wrong,
        idle=idle,
        out=any(oracle.out_of_bounds(scenario, one.settings) for one in walked),
    )


def walls_of(played: Played) -> list[Attempt]:
    """The attempts with the walls that no rank could note: they are computed, not allocated."""
    last = None if played.stopped else len(played.attempts) - 1
    return [
        attempt
        if attempt.wall is not None or at == last
        else replace(attempt, wall=_unnoted(played, attempt))
        for at, attempt in enumerate(played.attempts)
    ]


def _unnoted(played: Played, attempt: Attempt) -> Wall | None:
    if not attempt.settings:
        return Wall.FLAG
    room = rooms(played.scenario.truth, attempt.settings, 0, attempt.launch)[Wall.KV_PLAN]
    return Wall.KV_PLAN if room < 0 else None


def _moves(played: Played, walked: list[Attempt]) -> tuple[int, int]:
    """Relaunches that worsened the wall that had failed, and those that did not move it."""
    wrong = idle = 0
    for died, after in itertools.pairwise(walked):
        if died.wall is None or not died.settings or not after.settings:
            continue
        met = (died.wall, died.others, died.launch)
        before = oracle.room_at(played.scenario, died.settings, met)
        now = oracle.room_at(played.scenario, after.settings, met)
        wrong += now < before - SAME_BYTES
        idle += abs(now - before) <= SAME_BYTES
    return wrong, idle
