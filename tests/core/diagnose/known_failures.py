"""Reads known_failures.toml: every failure known of vLLM, where it shows, and its wordings."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.core.diagnose import era_logs
from tests.core.diagnose.era_logs import Era


@dataclass(frozen=True)
class Known:
    """One place in which a known failure shows; ``texts`` are its wordings."""

    id: str
    failure: str
    signatures: tuple[str, ...]
    where: str
    texts: tuple[str, ...]
    phase: str | None = None
    site: str | None = None
    reached: str | None = None
    again: str | None = None
    since: str = "0"
    until: str = "99"
    frames: tuple[str, ...] = ()

    def lived_in(self, era: Era) -> bool:
        version = numbers(era.version)
        return numbers(self.since) <= version <= numbers(self.until)

    def log(self, era: Era, text: str) -> list[str]:
        reached = self.reached or "args"
        raised = {
            "worker": lambda: era_logs.raised_in_worker(era, reached, self.frames, text),
            "core": lambda: era_logs.raised_in_core(era, reached, self.frames, text),
            "server": lambda: era_logs.raised_in_server(era, self.frames, text),
            "record": lambda: era.record("core", "ERROR", "multiproc_executor.py:246", text),
            "stall": lambda: era_logs.silent(era, text),
            "stderr": lambda: iter(text.split("\n")),
            "kernel": lambda: iter(()),
        }
        return [*era_logs.started(era, self.reached), *raised[self.where]()]


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _load() -> list[Known]:
    path = Path(__file__).with_name("known_failures.toml")
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["failure"]
    return [Known(**{name: _frozen(value) for name, value in entry.items()}) for entry in entries]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


KNOWN = _load()
