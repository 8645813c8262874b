"""Turns games into the figures of the table: one row per policy, or per policy and family."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.convergence import oracle, physics
from benchmarks.convergence.oracle import Best
from benchmarks.convergence.play import Game
from benchmarks.convergence.scenario import MIB, Scenario, Wall

SAME_BYTES = 8 * MIB
"""A relaunch that moves the failing wall by less has not moved it."""
UNMEASURED = (Wall.FLAG, Wall.EXIT)


@dataclass(frozen=True, slots=True)
class Mark:
    """What one game is worth. Shares are None where they do not apply."""

    policy: str
    family: str
    number: int
    feasible: bool
    solved: bool
    stopped: bool
    relaunches: int
    floor: int
    wrong: int
    idle: int
    out: bool
    changed: bool
    kv_left: float | None = None
    capacity_left: float | None = None


def mark(policy: str, scenario: Scenario, found: Best, game: Game) -> Mark:
    wrong, idle = moves(scenario, game)
    out = any(oracle.out_of_bounds(scenario, one.settings) for one in game.attempts)
    last = game.attempts[-1].settings if game.attempts else scenario.operator.asked
    solved = found.feasible and game.stays_up and not oracle.out_of_bounds(scenario, last)
    return Mark(
        policy=policy,
        family=scenario.family,
        number=scenario.number,
        feasible=found.feasible,
        solved=solved,
        stopped=bool(game.stopped),
        relaunches=game.relaunches,
        floor=oracle.floor_of(scenario, found),
        wrong=wrong,
        idle=idle,
        out=out,
        changed=any(last.get(name) != value for name, value in scenario.operator.asked.items()),
        kv_left=oracle.kv_left(scenario, last) if solved else None,
        capacity_left=oracle.capacity_left(scenario, last, found) if solved else None,
    )


def moves(scenario: Scenario, game: Game) -> tuple[int, int]:
    """Relaunches that worsened the wall that had failed, and those that did not move it."""
    wrong = idle = 0
    for died, after in zip(game.attempts, game.attempts[1:], strict=False):
        if died.wall is None or died.wall in UNMEASURED or died.wall is Wall.DISTURBED:
            continue
        room = physics.slacks(scenario.truth, after.settings, died.others, died.noise, died.spike)[
            died.wall
        ]
        if room < died.room - SAME_BYTES:
            wrong += 1
        elif room <= died.room + SAME_BYTES and after.wall is died.wall:
            idle += 1
    return wrong, idle


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of many games; shares in percent, None where there is nothing to count."""

    name: str
    games: int
    solved: float | None
    gave_up: float | None
    before_giving_up: float | None
    relaunches: float | None
    relaunches_95: int | None
    floor: float | None
    kv: tuple[float, float] | None
    capacity: tuple[float, float] | None
    wrong: float
    idle: float
    harmful: float | None
    out: float


def row(name: str, marks: Sequence[Mark]) -> Row:
    feasible = [one for one in marks if one.feasible]
    hopeless = [one for one in marks if not one.feasible]
    solved = [one for one in feasible if one.solved]
    return Row(
        name=name,
        games=len(marks),
        solved=_percent(len(solved), len(feasible)),
        gave_up=_percent(sum(one.stopped for one in hopeless), len(hopeless)),
        before_giving_up=_mean([one.relaunches for one in hopeless if one.stopped]),
        relaunches=_mean([one.relaunches for one in solved]),
        relaunches_95=_percentile([one.relaunches for one in solved], 0.95),
        floor=_mean([one.floor for one in solved]),
        kv=_both([one.kv_left for one in solved if one.kv_left is not None]),
        capacity=_both([one.capacity_left for one in solved if one.capacity_left is not None]),
        wrong=sum(one.wrong for one in marks) / len(marks),
        idle=sum(one.idle for one in marks) / len(marks),
        harmful=_percent(sum(one.stopped for one in feasible), len(feasible)),
        out=100 * sum(one.out for one in marks) / len(marks),
    )


def _percent(some: int, of: int) -> float | None:
    return 100 * some / of if of else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _percentile(values: Sequence[int], share: float) -> int | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def _both(values: Sequence[float]) -> tuple[float, float] | None:
    return (100 * statistics.median(values), 100 * statistics.fmean(values)) if values else None
