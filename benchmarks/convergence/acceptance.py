"""The checks that the simulator itself has to pass: others must fare here as they do elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.convergence.score import Mark, Row

SOLVED = {
    "blind restart": (10.0, 30.0),
    "utilization -0.05": (55.0, 80.0),
    "halve max_num_seqs": (35.0, 65.0),
    "RunPod: eager, 8192": (50.0, 75.0),
    "Apron-like": (8.0, 30.0),
    "section 10, literal": (82.0, 96.0),
}
"""Percent of the feasible scenarios; below or above, the simulator is too hard or too easy."""
ORACLE = (0.75, 1.0)
"""Mean relaunches of somebody who knows everything, over the feasible scenarios."""


@dataclass(frozen=True, slots=True)
class Check:
    """One of the checks: what has to lie between which bounds."""

    name: str
    value: float
    low: float
    high: float

    @property
    def holds(self) -> bool:
        return self.low <= self.value <= self.high


def checks(rows: Sequence[Row], marks: Sequence[Mark]) -> list[Check]:
    """One check per baseline that was played, and the oracle's."""
    by_name = {row.name: row for row in rows}
    found = [
        Check(name, by_name[name].solved or 0.0, *bounds)
        for name, bounds in SOLVED.items()
        if name in by_name
    ]
    first = {(one.family, one.number): one for one in marks if one.feasible}
    floors = [one.floor for one in first.values()]
    mean = sum(floors) / len(floors) if floors else 0.0
    return [*found, Check("oracle's relaunches", mean, *ORACLE)]
