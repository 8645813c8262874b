"""Text for terminals: colour where there is one, sizes, durations, columns, harmless log lines."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vllm_warden.core.plain_text import without_escapes

GIB = 1 << 30
MIB = 1 << 20

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


@dataclass(frozen=True, slots=True)
class Style:
    """How wide lines may be, and whether escape sequences are welcome."""

    width: int = 80
    colour: bool = False

    def paint(self, text: str, *looks: str) -> str:
        if not self.colour or not looks:
            return text
        return f"\x1b[{';'.join(_CODES[look] for look in looks)}m{text}\x1b[0m"


def style_of_stdout() -> Style:
    """Colour only on a terminal, and not where NO_COLOR is set (no-color.org)."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((80, 24)).columns
    return Style(width=max(40, min(width, 120)), colour=colour)


def harmless(text: str) -> str:
    """Text without escape sequences, control and direction characters (it is untrusted).

    Nor has it halves of surrogate pairs, which nothing can print: names of files and JSON may.
    """
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", without_escapes(text)).expandtabs(4)


def gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.1f} GiB"


def size(size_bytes: float) -> str:
    """Bytes for people: MiB below one GiB."""
    return gib(size_bytes) if size_bytes >= GIB else f"{size_bytes / MIB:.0f} MiB"


def duration(seconds: float) -> str:
    """Two units at most: ``8 s``, ``12 min``, ``2 h 5 min``, ``3 days``."""
    whole = max(0, int(seconds))
    if whole < 100:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def value(setting: object) -> str:
    """A setting as a person would write it."""
    if setting is None:
        return "default"
    if isinstance(setting, bool):
        return "true" if setting else "false"
    if isinstance(setting, float):
        # 8192.0 is how JSON carries a count that came out of arithmetic
        return str(int(setting)) if setting.is_integer() else f"{setting:.6g}"
    return harmless(str(setting))


def ranges(numbers: Sequence[int]) -> str:
    """``[0, 1, 2, 5]`` as ``0-2,5``."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


def bar(fraction: float, cells: int) -> str:
    filled = round(max(0.0, min(1.0, fraction)) * cells)
    return f"[{'#' * filled}{'-' * (cells - filled)}]"


def wrapped(text: str, style: Style, indent: str, first: str | None = None) -> list[str]:
    """Lines of at most the style's width, the first one behind ``first``."""
    return textwrap.wrap(
        harmless(text),
        width=style.width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def columns(rows: Iterable[Sequence[str]], indent: str = "", gap: str = "  ") -> list[str]:
    """Left-aligned columns as wide as their widest cell."""
    table = [list(row) for row in rows]
    if not table:
        return []
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return [
        indent + gap.join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def cut(text: str, width: int) -> str:
    """At most ``width`` characters, the last ones three dots where something was cut off."""
    return text if len(text) <= width else text[: max(0, width - 3)] + "..."
