"""Rewrites the table of measured errors in docs/explanation/memory-model.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.core.plan.memory_model.judged import FIGURES, LOADED, deviation_of, loaded_deviation

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "memory-model.md"
BEGIN = "<!-- errors: begin, written by python -m tests.core.plan.memory_model.error_table -->"
END = "<!-- errors: end -->"


def rows() -> Iterator[str]:
    yield "| figure | shown | estimate off by |"
    yield "|---|---|---|"
    for figure in FIGURES["engine"]:
        shown = (
            f"{figure['used_mib']} MiB used"
            if "used_mib" in figure
            else f"{figure['weights_gib']} GiB"
        )
        yield f"| {figure['name']} | {shown} | {deviation_of(figure):+.2%} |"
    for name, loaded in LOADED.items():
        size = max(loaded["ranks_bytes"])
        yield f"| loaded: {name} | {size} bytes | {loaded_deviation(name):+.2%} |"


def page_with_table(text: str) -> str:
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return "\n".join([head + BEGIN, "", *rows(), "", END + tail])


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
