"""Writes marks as rows, goals and stories of what was missed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.held_back.score import Mark, walls_of
from benchmarks.table import aligned

HEAD = ("", "scenarios", "solved", "gave up", "relaunches", "oracle", "wrong", "idle", "out")


@dataclass(frozen=True, slots=True)
class Goal:
    """``value`` None: nothing of the kind was played."""

    name: str
    value: float | None
    asked: str
    met: bool


def goals(marks: Sequence[Mark]) -> list[Goal]:
    feasible = [one for one in marks if one.feasible]
    hopeless = [one for one in marks if not one.feasible]
    solved = _percent(sum(one.solved for one in feasible), len(feasible))
    gave_up = _percent(sum(one.gave_up for one in hopeless), len(hopeless))
    wrong, out = sum(one.wrong for one in marks), sum(one.out for one in marks)
    return [
        Goal("solved of feasible, %", solved, ">= 98", solved is None or solved >= 98),
        Goal("correct give-up, %", gave_up, "100", gave_up is None or gave_up >= 100),
        Goal("moves in the wrong direction", float(wrong), "0", wrong == 0),
        Goal("outside the bounds", float(out), "0", out == 0),
    ]


def rows(marks: Sequence[Mark]) -> str:
    """One row for all and one for each family."""
    families = list(dict.fromkeys(one.played.scenario.family for one in marks))
    each = [
        _row(family, [one for one in marks if one.played.scenario.family == family])
        for family in families
    ]
    return "\n".join(aligned([HEAD, _row("all", marks), *each], left={0}))


def goals_text(found: Sequence[Goal]) -> str:
    lines = [
        (
            goal.name,
            "-" if goal.value is None else f"{goal.value:.1f}",
            goal.asked,
            "met" if goal.met else "NOT MET",
        )
        for goal in found
    ]
    return "\n".join(aligned([("goal", "measured", "asked", ""), *lines], left={0}))


def story(mark: Mark) -> str:
    """What happened in one scenario, for those that were missed."""
    played, scenario = mark.played, mark.played.scenario
    needed = "nothing works" if mark.needed is None else f"{mark.needed} relaunches are enough"
    who = f"scenario {scenario.number} ({scenario.family}, vLLM {scenario.truth.version})"
    lines = [
        f"{who}: {needed}; {played.state} after {played.seconds:.0f} s: {played.reason}",
        f"  asked {dict(scenario.asked)}",
    ]
    for attempt in walls_of(played):
        changed = {
            name: value
            for name, value in attempt.settings.items()
            if scenario.asked.get(name) != value
        }
        wall = "no wall" if attempt.wall is None else attempt.wall.value
        lines.append(f"  attempt {attempt.launch}: {wall}, changed {changed}")
    return "\n".join(lines)


def _row(name: str, marks: Sequence[Mark]) -> tuple[str, ...]:
    feasible = [one for one in marks if one.feasible]
    hopeless = [one for one in marks if not one.feasible]
    solved = [one for one in feasible if one.solved]
    return (
        name,
        str(len(marks)),
        _of(len(solved), len(feasible)),
        _of(sum(one.gave_up for one in hopeless), len(hopeless)),
        _mean([one.relaunches for one in solved]),
        _mean([one.needed or 0 for one in solved]),
        str(sum(one.wrong for one in marks)),
        str(sum(one.idle for one in marks)),
        str(sum(one.out for one in marks)),
    )


def _percent(some: int, of: int) -> float | None:
    return 100 * some / of if of else None


def _of(some: int, of: int) -> str:
    return f"{some} of {of}" if of else "-"


def _mean(values: Sequence[int]) -> str:
    return f"{statistics.fmean(values):.2f}" if values else "-"
