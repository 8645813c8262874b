"""Puts lines together again that a terminal of fixed width broke when they were copied."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from vllm_warden.core.diagnose.envelopes.block import LINE_BYTES_MAX, Block, block_of

_NARROWEST, _WIDEST = 60, 400
_FULL_LINES_MIN = 4
_CONTINUED_FRACTION = 0.75
_HEAD = re.compile(
    rb"[^\n]{0,200}?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d "
    rb"\[?[\w./-]{1,120}:\d{1,6}\] ?"
)
_BEGINS = re.compile(
    rb"\(\w{1,40}(?: [^)\n]{0,60})? pid=|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[ :]|  "
)
_DIGITS = re.compile(rb"\d+")
_TAGGED = re.compile(rb"\(|\[|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):")
"""Lines of uvicorn's, and of processes that name themselves."""
_UNSAFE = b"\n"
_QUOTES = re.compile(rb"(?:request_)?logger\.py:\d{1,6}\] ?$")


def broken_at(lines: Sequence[bytes]) -> int | None:
    """The width at which these lines were broken; None where they were not.

    Many different lines of exactly the greatest length, and what follows them rarely begins like
    a line of its own.
    """
    widths = [columns(line) for line in lines]
    width = max(widths, default=0)
    if not _NARROWEST <= width <= _WIDEST:
        return None
    full = [index for index, each in enumerate(widths[:-1]) if each == width]
    different = Counter(_DIGITS.sub(b"", lines[index]) for index in full)
    if len(different) < _FULL_LINES_MIN:
        return None
    continued = sum(1 for index in full if not _BEGINS.match(lines[index + 1]))
    is_log = any(_HEAD.match(line) for line in lines)
    return width if is_log and continued >= _CONTINUED_FRACTION * len(full) else None


def broken_behind(has_prefix: Callable[[bytes], bool], lines: Sequence[bytes]) -> int | None:
    """The width, where every line that lacks the prefix of the others follows a full one."""
    width = max((columns(line) for line in lines), default=0)
    behind = [before for before, line in pairwise(lines) if line.strip() and not has_prefix(line)]
    if not behind or not _NARROWEST <= width <= _WIDEST:
        return None
    return width if all(columns(line) == width for line in behind) else None


def columns(line: bytes) -> int:
    """Characters of a line, as a terminal counts most of them."""
    return len(line) if line.isascii() else len(line.decode("utf-8", "replace"))


class Unbroken:
    """Continues each line of full width by the next one.

    Also where that looks like a record: a prompt that was broken there could have said so. Only
    a record that repeats the head of the one before, as each line of a traceback does, stands
    for itself.
    """

    def __init__(self, width: int) -> None:
        self.name = f"a terminal of {width} columns"
        self._width = width
        self._number = 0
        self._line: bytes | None = None
        self._head = b""

    def undo(self, block: Block) -> Block | None:
        found: list[tuple[int, bytes]] = []
        for index, line in enumerate(block.lines()):
            row = line.rstrip(b"\r")
            if self._line is not None and self._stands_alone(row):
                self._end(found)
            if self._line is None:
                self._number, self._line, self._head = block.number(index), row, _head_of(row)
            else:
                self._line = (self._line + row)[:LINE_BYTES_MAX]
            if columns(row) < self._width:
                self._end(found)
        return block_of(found)

    def strip(self, lines: list[bytes]) -> list[bytes]:
        again = Unbroken(self._width)
        parts = (again.undo(Block(1, b"\n".join(lines) + b"\n")), again.finish())
        return [line for block in parts if block for line in block.lines()]

    def finish(self) -> Block | None:
        found: list[tuple[int, bytes]] = []
        if self._line is not None:
            self._end(found)
        return block_of(found)

    def _stands_alone(self, row: bytes) -> bool:
        """After a record only what repeats its head; after bare text what is indented."""
        return row.startswith(self._head or b"  ") if self._head != _UNSAFE else False

    def _end(self, found: list[tuple[int, bytes]]) -> None:
        if self._line is not None:
            found.append((self._number, self._line))
        self._line, self._head = None, b""


def _head_of(row: bytes) -> bytes:
    """What a further record with the same process, time and origin begins with.

    Empty for text without a head, and what no row begins with for a request's record.
    """
    head = _HEAD.match(row)
    if head is None:
        return _UNSAFE if _TAGGED.match(row) else b""
    return _UNSAFE if _QUOTES.search(head[0]) else head[0]
