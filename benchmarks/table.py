"""The table of budgets: what was promised, what was measured, and whether it holds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One measured quantity. ``budget`` None: shown for comparison, promised by nobody."""

    name: str
    unit: str
    values: tuple[float, ...]
    budget: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        if not self.values:
            return "not measured"
        if self.budget is None:
            return "-"
        return "ok" if self.median < self.budget else "over budget"


def missing(name: str, unit: str, budget: float | None, reason: str) -> Row:
    return Row(name, unit, (), budget, reason)


def render(rows: Sequence[Row]) -> str:
    """Plain text, one line a row, notes below."""
    head = ("", "budget", "median", "min", "max", "n", "verdict")
    cells = [head, *(_cells(row) for row in rows)]
    lines = aligned(cells, left={0, len(head) - 1})
    lines += [f"  {row.name}: {row.note}" for row in rows if row.note]
    return "\n".join(lines)


def aligned(cells: Sequence[Sequence[str]], left: Container[int]) -> list[str]:
    """One line a row; columns that are not ``left`` end together."""
    widths = [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]
    return [
        "  ".join(
            word.ljust(width) if at in left else word.rjust(width)
            for at, (word, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def document(rows: Sequence[Row], conditions: Sequence[str]) -> str:
    """The same as JSON, with every single value."""
    shown = [asdict(row) | {"verdict": row.verdict} for row in rows]
    return json.dumps({"conditions": list(conditions), "rows": shown}, indent=2) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    budget = "" if row.budget is None else f"< {_number(row.budget)} {row.unit}"
    if not row.values:
        return (row.name, budget, "", "", "", "0", row.verdict)
    figures = (row.median, min(row.values), max(row.values))
    shown = [f"{_number(figure)} {row.unit}" for figure in figures]
    return (row.name, budget, *shown, str(len(row.values)), row.verdict)


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.1f}"
