"""The answer of one check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """``warn`` is worth reading and stops nothing; ``fail`` makes the answer no."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """``summary`` is one sentence, ``details`` what it rests on, ``hint`` what a person can do."""

    name: str
    state: State
    summary: str
    details: tuple[str, ...] = ()
    hint: str = ""

    def to_document(self) -> dict[str, object]:
        return {
            "name": self.name,
            "state": self.state,
            "summary": self.summary,
            "details": list(self.details),
            "hint": self.hint,
        }
