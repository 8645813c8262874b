"""Says how much of an overlong log line is kept, and how what was left out is counted."""

from __future__ import annotations

import re

LINE_BYTES_KEPT = 16_384
"""What proves a cause comes early in a line; prompts, which users choose, make lines of megabytes.

A line is never cut into several records: a piece could begin with words that look like the
engine's own, and whoever writes the prompt chooses where.
"""

_SHORTENED = re.compile(r" \[\d{1,19} more bytes\]$")
_SHORTENED_MAX = 40
_UNFINISHED = "\ufffd"


def shortened(kept: bytes, dropped_bytes: int = 0) -> str:
    """The text of a line of which so many bytes behind ``kept`` were dropped, and says so.

    Trailing blanks are stripped, bytes that are not UTF-8 become U+FFFD.
    """
    if len(kept) > LINE_BYTES_KEPT:
        dropped_bytes += len(kept) - LINE_BYTES_KEPT
        kept = kept[:LINE_BYTES_KEPT]
    text = kept.decode("utf-8", "replace").rstrip()
    if not dropped_bytes:
        return text
    return f"{text.rstrip(_UNFINISHED)} [{dropped_bytes} more bytes]"


def is_shortened(text: str) -> bool:
    """True when the end of the line was dropped (or a line says so of itself)."""
    return bool(parted(text)[1])


def parted(text: str) -> tuple[str, str]:
    """What was kept of the line, and the note of what was not ("" where nothing is missing)."""
    note = _SHORTENED.search(text, max(0, len(text) - _SHORTENED_MAX))
    return (text[: note.start()], note[0]) if note else (text, "")
