"""Takes lines out of an open journal reader: the few fields that matter, pieces put together."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

from vllm_warden.core.diagnose.long_line import LINE_BYTES_KEPT, shortened


class RawReader(Protocol):
    """What we use of systemd-python's Reader.

    ``_next`` and ``_get`` skip the conversion of some twenty fields: ten times as fast.
    """

    def _next(self, skip: int = 1) -> int: ...
    def _get(self, key: str) -> bytes: ...
    def _get_monotonic(self) -> tuple[int, bytes]: ...
    def process(self) -> int: ...
    def fileno(self) -> int: ...
    def add_match(self, *args: str, **kwargs: str) -> None: ...
    def flush_matches(self) -> None: ...
    def seek_head(self) -> None: ...
    def seek_realtime(self, realtime: float) -> None: ...
    def close(self) -> None: ...


class Entry(NamedTuple):
    """One journal entry of a stream; ``at_seconds`` is CLOCK_BOOTTIME, for this boot only.

    ``message`` is the line's begin, behind which at least ``dropped_bytes`` were left out.
    A tuple because thousands are made while a decision waits for them: half the time of a frozen
    dataclass.
    """

    message: bytes
    pid: int | None
    is_piece: bool
    at_seconds: float
    dropped_bytes: int = 0

    @property
    def text(self) -> str:
        return shortened(self.message, self.dropped_bytes)


TOO_LONG = b"line-max"
PIECES = frozenset({TOO_LONG, b"pid-change"})
"""journald cuts lines that are too long, and half lines when another process writes."""


def next_entry(reader: RawReader, boottime_offset_seconds: float) -> Entry | None:
    """None when there is no further entry now. The offset is that of ``boottime_offset``."""
    if not reader._next():  # noqa: SLF001
        return None
    get = reader._get  # noqa: SLF001
    try:
        line_break = get("_LINE_BREAK")
    except KeyError:
        line_break = b""
    try:
        message, pid = get("MESSAGE"), get("_PID")
    except KeyError:
        message, pid = field(reader, "MESSAGE").encode(), field(reader, "_PID").encode()
    # a piece of full length that came out short had blanks at its end, which journald strips
    stripped_bytes = int(line_break == TOO_LONG and len(message) <= LINE_BYTES_KEPT)
    return Entry(
        message,
        int(pid) if pid.isdigit() else None,
        line_break in PIECES,
        reader._get_monotonic()[0] / 1e6 + boottime_offset_seconds,  # noqa: SLF001
        stripped_bytes,
    )


def boottime_offset() -> float:
    """Seconds from CLOCK_MONOTONIC, which stands still in suspend, to CLOCK_BOOTTIME now.

    Entries from before a suspend come out too late by its length.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def field(reader: RawReader, name: str) -> str:
    """Text of a field of the current entry, empty where it has none; bad bytes become U+FFFD."""
    try:
        value = reader._get(name)  # noqa: SLF001
    except KeyError:
        return ""
    return value.decode("utf-8", "replace")


class Joiner:
    """Puts the pieces of one process's line together again, as far as a line is kept.

    Pieces up to the line's real end belong to it, however many come and whoever writes between:
    none of them is ever a line of its own. (journald does not store the empty rest of a line of
    exactly its LineMax; the process's next line is then taken for that rest.) Under load journald
    now and then stores a piece without its writer: it is joined to the line that was begun last,
    and what follows it is joined to it. Two lines in one can hide a line, but a rest that stands
    on its own would let a prompt write one.
    """

    def __init__(self) -> None:
        self._begun: dict[int | None, Entry] = {}

    def add(self, entry: Entry) -> Entry | None:
        """The whole line, None while more of it must come."""
        if not self._begun and not entry.is_piece:
            return entry
        begun = self._take_begun(entry.pid)
        if begun is not None:
            entry = _extended(begun, entry)
        if entry.is_piece:
            self._begun[entry.pid] = entry if begun is not None else _extended(_NOTHING, entry)
            return None
        return entry

    def _take_begun(self, pid: int | None) -> Entry | None:
        if pid not in self._begun:
            pid = next(reversed(self._begun), None) if pid is None else None
        return self._begun.pop(pid, None)

    def rest(self) -> list[Entry]:
        """Lines that never got their end, at the end of the stream."""
        rest = list(self._begun.values())
        self._begun.clear()
        return rest


def _extended(begun: Entry, more: Entry) -> Entry:
    room = 0 if begun.dropped_bytes else LINE_BYTES_KEPT - len(begun.message)
    dropped_bytes = begun.dropped_bytes + more.dropped_bytes + max(0, len(more.message) - room)
    at_seconds = more.at_seconds if begun is _NOTHING else begun.at_seconds
    message = begun.message + more.message[:room]
    pid = begun.pid if more.pid is None else more.pid
    return Entry(message, pid, more.is_piece, at_seconds, dropped_bytes)


_NOTHING = Entry(b"", None, is_piece=True, at_seconds=0.0)
