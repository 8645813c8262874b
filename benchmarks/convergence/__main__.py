"""``python -m benchmarks.convergence``: how soon, and how well, a failing engine is cured.

Prints the simulator's own checks, the table of all policies and the goals of ours, and writes
docs/benchmarks/convergence.md. Exit 1 when a check of the simulator fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks.convergence import acceptance, goals, run, score, table
from benchmarks.convergence.score import Mark, Row
from benchmarks.convergence.story import story
from benchmarks.convergence.stress import STRESSES

PAGE = Path(__file__).parents[2] / "docs/benchmarks/convergence.md"


def main() -> int:
    options = _options()
    family = run.known_family(options.family) if options.family else None
    names = [*run.policies()] if options.policies is None else options.policies.split(",")
    work = run.Work(options.seed, tuple(names), family, options.stress)
    if options.show is not None:
        print(story(work, options.show, logs=options.logs))
        return 0
    began = time.monotonic()
    marks = _marks(work, options)
    rows = [score.row(name, [one for one in marks if one.policy == name]) for name in names]
    found = acceptance.checks(rows, marks)
    parts = [
        ("The simulator's own checks", table.checks_text(found)),
        ("All policies", table.rows_text(rows)),
        *_own(rows, marks),
    ]
    for name in names if options.families else names[-1:]:
        of_name = [one for one in marks if one.policy == name]
        parts.append((f"{name}, by family", table.rows_text(goals.family_rows(of_name))))
    if options.stresses:
        parts.append((f"{run.OWN}, assumptions broken", _stresses(work, options)))
    for title, text in parts:
        print(f"{title}\n\n{text}\n")
    took = time.monotonic() - began
    print(f"{options.scenarios} scenarios, seed {options.seed}, {took:.0f} s")
    whole = work == run.Work(options.seed, tuple(run.policies()))
    if whole and options.write:
        _write(parts, options)
    return 1 if whole and not all(check.holds for check in found) else 0


def _marks(work: run.Work, options: argparse.Namespace) -> list[Mark]:
    marks: list[Mark] = []
    for chunk in run.every_mark(work, options.scenarios, options.jobs):
        marks += chunk
        _progress(len(marks) // len(work.names), options.scenarios)
    return marks


def _own(rows: list[Row], marks: list[Mark]) -> list[tuple[str, str]]:
    mine = [one for one in marks if one.policy == run.OWN]
    if not mine:
        return []
    own = next(row for row in rows if row.name == run.OWN)
    return [("Goals", table.goals_text(goals.goals(own, mine)))]


def _stresses(work: run.Work, options: argparse.Namespace) -> str:
    """Our policy once for each assumption, on a fifth of the scenarios."""
    some = argparse.Namespace(**{**vars(options), "scenarios": max(24, options.scenarios // 5)})
    rows = []
    for name in STRESSES:
        broken = run.Work(work.seed, (run.OWN,), work.family, name)
        rows.append(score.row(name, _marks(broken, some)))
    return table.rows_text(rows)


def _write(parts: list[tuple[str, str]], options: argparse.Namespace) -> None:
    command = f"make bench-convergence (--scenarios {options.scenarios} --seed {options.seed})"
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(table.page(parts, command, options.scenarios), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.convergence", description=__doc__)
    parser.add_argument("--scenarios", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, metavar="ID", help="tell this one scenario instead")
    parser.add_argument("--logs", action="store_true", help="with --show: the logs too")
    parser.add_argument("--family", help="only this family; checks are not judged then")
    parser.add_argument("--policies", help="only these, by comma")
    parser.add_argument("--families", action="store_true", help="each policy by family")
    parser.add_argument("--stress", choices=list(STRESSES), help="with one assumption broken")
    parser.add_argument("--stresses", action="store_true", help="then with each of them broken")
    parser.add_argument("--jobs", type=int, help="processes; as many as cores")
    parser.add_argument("--no-write", dest="write", action="store_false", help="leave the page")
    return parser.parse_args()


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {of}", end="\n" if done >= of else "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
