"""Writes rows, checks and goals as plain text and as the page in docs/benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.convergence.acceptance import Check
from benchmarks.convergence.goals import Goal
from benchmarks.convergence.score import Row

HEAD = (
    "",
    "solved",
    "gave up",
    "before",
    "mean",
    "95th",
    "oracle",
    "KV left",
    "capacity left",
    "wrong",
    "idle",
    "harmful",
    "out",
)
LEGEND = """\
solved: % of the feasible scenarios in which the engine ends up staying up, within the bounds.
gave up: % of the infeasible ones in which the policy stops; before: relaunches spent before that.
mean, 95th: relaunches until it stays up, in what was solved; oracle: the least possible there.
KV left: % of the KV bytes that the same sequences and tokens could have had, median / mean.
capacity left: % of what the best settings within the bounds serve at once, median / mean.
wrong, idle: relaunches per scenario that worsened, or did not move, the wall that had failed.
harmful: % of the feasible scenarios in which it stops. out: % with a setting out of bounds."""


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        _number(row.solved, 1),
        _number(row.gave_up, 1),
        _number(row.before_giving_up, 2),
        _number(row.relaunches, 2),
        _number(row.relaunches_95, 0),
        _number(row.floor, 2),
        _pair(row.kv),
        _pair(row.capacity),
        _number(row.wrong, 2),
        _number(row.idle, 2),
        _number(row.harmful, 1),
        _number(row.out, 1),
    )


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be; the first to the left, the others to the right."""
    every = [tuple(head), *(tuple(line) for line in lines)]
    widths = [max(len(line[at]) for line in every) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            word.ljust(width) if at == 0 else word.rjust(width)
            for at, (word, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in every
    )


def rows_text(rows: Sequence[Row]) -> str:
    return table(HEAD, [cells(row) for row in rows])


def checks_text(checks: Sequence[Check]) -> str:
    lines = [
        (
            check.name,
            f"{check.value:.2f}",
            f"{check.low:g} to {check.high:g}",
            "ok" if check.holds else "FAILS",
        )
        for check in checks
    ]
    return table(("simulator's own checks", "measured", "has to be", ""), lines)


def goals_text(goals: Sequence[Goal]) -> str:
    lines = [
        (
            goal.name,
            "-" if goal.value is None else f"{goal.value:.2f}",
            goal.bound_text,
            {True: "met", False: "NOT MET", None: "not measured"}[goal.met],
        )
        for goal in goals
    ]
    return table(("goal", "measured", "asked", ""), lines)


def page(parts: Sequence[tuple[str, str]], command: str, games: int) -> str:
    """The page: what was run, then each part as a block of plain text."""
    lines = [
        "# Convergence",
        "",
        f"Written by `{command}`: {games} made-up hosts, models and stories, each played under",
        "each policy until the engine stays up or the policy stops. The simulator computes GPU",
        "memory from hidden values; a policy sees only the log, in the words of that version of",
        "vLLM, and what NVML shows. Nothing here ran on a GPU: it measures decisions, not vLLM.",
        "",
    ]
    for title, text in parts:
        lines += [f"## {title}", "", "```text", text, "```", ""]
    lines += ["## What the columns say", "", *LEGEND.split("\n"), ""]
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _pair(values: tuple[float, float] | None) -> str:
    return "-" if values is None else f"{values[0]:.1f} / {values[1]:.1f}"
