"""``python -m benchmarks.held_back``: the real daemon on hosts that obey other laws.

Each scenario is a stand-in engine with hidden values of this bench's own, supervised by a real
``vllm-wardend``; the bench sees its status, and sends full batches. Exit 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.held_back import table
from benchmarks.held_back.families import FAMILIES, scenario
from benchmarks.held_back.play import Played, play
from benchmarks.held_back.scenario import Scenario
from benchmarks.held_back.score import Mark, mark, walls_of

SIDE_BY_SIDE = 8
"""Scenarios under one daemon: more of them start at once than two cores can carry."""


def main() -> int:
    options = _options()
    began = time.monotonic()
    family = options.family
    drawn = [
        scenario(options.seed, number, family)
        for number in range(options.first, options.first + options.scenarios)
    ]
    marks = run(drawn, options.daemons)
    found = table.goals(marks)
    if options.json:
        print(json.dumps(_document(marks, found), indent=1))
    else:
        print(f"{table.rows(marks)}\n\n{table.goals_text(found)}\n")
        for one in marks:
            if one.is_missed or options.stories:
                print(f"{table.story(one)}\n")
        took = time.monotonic() - began
        print(f"{len(marks)} scenarios, seed {options.seed}, {took:.0f} s")
    return 0 if all(goal.met for goal in found) else 1


def run(scenarios: Sequence[Scenario], daemons: int) -> list[Mark]:
    """Plays and judges them, some daemons at a time, each with some engines."""
    done: list[Played] = []

    def tell(played: Played) -> None:
        done.append(played)
        end = "up" if played.up else "stopped" if played.stopped else f"LATE ({played.state})"
        name = f"{played.scenario.number} {played.scenario.family}"
        print(f"{len(done)}/{len(scenarios)}  {name}: {end}", file=sys.stderr, flush=True)

    batches = [scenarios[at : at + SIDE_BY_SIDE] for at in range(0, len(scenarios), SIDE_BY_SIDE)]
    with ThreadPoolExecutor(daemons) as pool:
        played = [
            one for batch in pool.map(lambda some: play(some, tell), batches) for one in batch
        ]
    return [mark(one) for one in sorted(played, key=lambda one: one.scenario.number)]


def _document(marks: Sequence[Mark], found: Sequence[table.Goal]) -> dict[str, object]:
    return {
        "schema": 1,
        "goals": [
            {"name": goal.name, "value": goal.value, "asked": goal.asked, "met": goal.met}
            for goal in found
        ],
        "scenarios": [
            {
                "number": one.played.scenario.number,
                "family": one.played.scenario.family,
                "feasible": one.feasible,
                "solved": one.solved,
                "gave_up": one.gave_up,
                "relaunches": one.relaunches,
                "needed": one.needed,
                "wrong": one.wrong,
                "idle": one.idle,
                "out_of_bounds": one.out,
                "seconds": round(one.played.seconds, 1),
                "reason": one.played.reason,
                "walls": [
                    None if attempt.wall is None else attempt.wall.value
                    for attempt in walls_of(one.played)
                ],
            }
            for one in marks
        ],
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.held_back", description=__doc__)
    parser.add_argument("--scenarios", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="number of the first scenario")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--family", choices=list(FAMILIES), help="only this family")
    parser.add_argument("--daemons", type=int, default=2, help="how many at a time")
    parser.add_argument("--stories", action="store_true", help="tell each scenario")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
