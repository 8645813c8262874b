"""Finds the line on which a TOML key was written, so that an error can point at it.

``tomllib`` keeps no positions. A scan over table headers and keys is right for every file that
people write; where it is wrong (a key inside a multi-line inline value) it names the line of the
value's own key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"^\s*\[\[?\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(rf"^\s*({_DOTTED})\s*=(.*)$")

Path = tuple[str, ...]


def key_lines(text: str) -> dict[Path, int]:
    """Every table and key of the text, by its path, with its line number counted from 1."""
    found: dict[Path, int] = {}
    table: Path = ()
    quote: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if quote is not None:
            quote = None if line.count(quote) % 2 else quote
            continue
        if header := _HEADER.match(line):
            table = _parts(header[1])
            _note(found, table, number)
        elif key := _KEY.match(line):
            _note(found, table + _parts(key[1]), number)
            quote = next((mark for mark in ('"""', "'''") if key[2].count(mark) % 2), None)
    return found


def line_of(lines: dict[Path, int], path: Iterable[object]) -> int | None:
    """The line of the key, or of the nearest table around it that was written out."""
    parts = tuple(str(part) for part in path)
    while parts:
        if parts in lines:
            return lines[parts]
        parts = parts[:-1]
    return None


def _note(found: dict[Path, int], path: Path, number: int) -> None:
    for length in range(1, len(path) + 1):
        found.setdefault(path[:length], number)


def _parts(dotted: str) -> Path:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))
