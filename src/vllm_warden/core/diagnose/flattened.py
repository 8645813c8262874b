"""Takes a traceback apart that a report, a terminal or an escape wrote onto one line."""

from __future__ import annotations

import re

START = "Traceback (most recent call last):"
"""How Python begins a traceback; C++ and JSON put text in front of it."""

PARTS_MAX = 80
"""Of a deeper stack the outermost and the innermost frames are looked at."""
_FRAME_WITHIN = 200
"""The first frame follows the start within so many characters."""

_BREAK = re.compile(r"(?:\\r)?\\n|\s(?=File \"[^\"]{1,400}\", line \d{1,7}, in )")
"""Where a line break was: written as two characters, or lost in front of a frame."""
_RAISED = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Za-z]\w{0,80}(?:Error|Exception|Interrupt|Exit)(?:: |$)"
)
_FRAME_HEAD = re.compile(r"File \"[^\"]{1,400}\", line \d{1,7}, in \S{1,120}")


def is_flat(message: str) -> bool:
    """True for two frames or more on one line, with or without the start of a traceback."""
    if message.count('File "') < 2:
        return False
    return len(unflattened(message)) > 1


def unflattened(message: str) -> list[str]:
    """The lines of a traceback, of which the first ends with its start.

    The message itself where it holds no more than the start.
    """
    at = message.find(START)
    end = at + len(START)
    if at < 0:  # an excerpt that begins within the stack
        begin = message.find('File "')
        at, end = begin, max(begin, 0)
    if at < 0 or _FRAME_HEAD.search(message, end, end + _FRAME_WITHIN) is None:
        return [message]
    parts = [part for part in _BREAK.split(message[end:].lstrip()) if part.strip()]
    if len(parts) > PARTS_MAX:
        parts = parts[: PARTS_MAX // 2] + parts[-PARTS_MAX // 2 :]
    lines = [message[:end] if START in message else START]
    for part in parts:
        lines += _frame_and_rest(part)
    return lines


def _frame_and_rest(part: str) -> list[str]:
    """A frame, the source that followed it, and the exception behind the last one."""
    head = _FRAME_HEAD.match(part.lstrip())
    if head is None:
        return [part]
    text = part.lstrip()
    rest = text[head.end() :].strip()
    raised = _RAISED.search(rest)
    source = rest[: raised.start()] if raised else rest
    lines = ["  " + head[0], "    " + source]
    return [*lines, rest[raised.start() :]] if raised else lines
