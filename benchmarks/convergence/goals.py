"""What our own policy is to reach, figure by figure, and whether it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.convergence.score import Mark, Row, row

AT_ONCE = ("weights too big", "TP2 with EP", "bad flag")
EXACTLY_ONE = (
    "seed incident",
    "graph capture",
    "post-KV sampler",
    "post-KV activations",
    "KV short, headroom",
    "KV short, no headroom",
)
UNTOUCHED = ("neighbour leaves", "orphan lingers")


@dataclass(frozen=True, slots=True)
class Goal:
    """``value`` None: nothing was there to measure. ``most`` is an upper bound, else a lower."""

    name: str
    value: float | None
    bound: float
    most: bool = True
    unit: str = ""

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        slack = 1e-9
        low_enough = self.value <= self.bound + slack
        return low_enough if self.most else self.value >= self.bound - slack

    @property
    def bound_text(self) -> str:
        return f"{'<=' if self.most else '>='} {self.bound:g}{self.unit}"


def goals(own: Row, marks: Sequence[Mark]) -> list[Goal]:
    """``marks`` are our policy's."""
    kv, capacity = own.kv or (None, None), own.capacity or (None, None)
    over = None
    if own.relaunches is not None and own.floor is not None:
        over = own.relaunches - own.floor
    found = [
        Goal("solved of feasible", own.solved, 98, most=False, unit=" %"),
        Goal("correct give-up", own.gave_up, 100, most=False, unit=" %"),
        Goal("relaunches before giving up", own.before_giving_up, 0.2),
        Goal("relaunches above the oracle's", over, 0.08),
        Goal("relaunches, 95th percentile", own.relaunches_95, 1),
        Goal("KV left, median", kv[0], 2, unit=" %"),
        Goal("KV left, mean", kv[1], 4, unit=" %"),
        Goal("capacity left, median", capacity[0], 5, unit=" %"),
        Goal("capacity left, mean", capacity[1], 10, unit=" %"),
        Goal("wrong direction", own.wrong, 0),
        Goal("out of bounds", own.out, 0, unit=" %"),
        Goal("harmful stops", own.harmful, 1, unit=" %"),
    ]
    return [*found, *_of_families(marks)]


def _of_families(marks: Sequence[Mark]) -> list[Goal]:
    found = []
    for name in AT_ONCE:
        spent = [one.relaunches for one in marks if one.family == name]
        found.append(Goal(f"{name}: relaunches", max(spent, default=None), 0))
    for name in EXACTLY_ONE:
        mine = [one for one in marks if one.family == name and one.feasible]
        once = sum(one.solved and one.relaunches == 1 for one in mine)
        share = 100 * once / len(mine) if mine else None
        found.append(Goal(f"{name}: exactly one relaunch", share, 98, most=False, unit=" %"))
    for name in UNTOUCHED:
        mine = [one for one in marks if one.family == name]
        bad = sum(one.relaunches > one.floor or one.changed for one in mine)
        share = 100 * bad / len(mine) if mine else None
        found.append(Goal(f"{name}: relaunched or changed", share, 0, unit=" %"))
    return found


def family_rows(marks: Sequence[Mark]) -> list[Row]:
    names = dict.fromkeys(one.family for one in marks)
    return [row(name, [one for one in marks if one.family == name]) for name in names]
