"""Reads what the engine noted of its attempts: the settings in force, and the wall it hit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.held_back.rooms import Wall
from benchmarks.held_back.truth import Value


@dataclass(frozen=True, slots=True)
class Attempt:
    """``settings`` are empty when the command line was refused; ``wall`` None: it did not fail."""

    launch: int
    settings: Mapping[str, Value] = field(default_factory=dict)
    wall: Wall | None = None
    others: int = 0


def attempts(diary: Path) -> list[Attempt]:
    """In the order of launches; empty where there was none."""
    found: dict[int, Attempt] = {}
    try:
        lines = diary.read_text().splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        note = json.loads(line)
        launch = int(note["launch"])
        attempt = found.get(launch, Attempt(launch))
        if note.get("settings"):
            attempt = replace(attempt, settings=note["settings"])
        if "wall" in note and (attempt.wall is None or note["rank"] == 0):
            attempt = replace(attempt, wall=Wall(note["wall"]), others=int(note["others"]))
        found[launch] = attempt
    return [found[launch] for launch in sorted(found)]
