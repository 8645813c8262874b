"""Takes lines out of an open journal reader: the few fields that matter, pieces put together."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

JOINED_CHARACTERS_MAX = 256 * 1024


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

    A tuple because thousands are made while a decision waits for them: half the time of a frozen
    dataclass.
    """

    text: str
    pid: int | None
    is_piece: bool
    at_seconds: float


PIECES = frozenset({b"line-max", b"pid-change"})
"""journald cuts lines that are too long, and half lines when another process writes."""


def next_entry(reader: RawReader, boottime_offset_seconds: float) -> Entry | None:
    """None when there is no further entry now. The offset is that of ``boottime_offset``."""
    if not reader._next():  # noqa: SLF001
        return None
    get = reader._get  # noqa: SLF001
    try:
        is_piece = get("_LINE_BREAK") in PIECES
    except KeyError:
        is_piece = False
    try:
        text, pid = get("MESSAGE"), get("_PID")
    except KeyError:
        text, pid = field(reader, "MESSAGE").encode(), field(reader, "_PID").encode()
    return Entry(
        text.decode("utf-8", "replace"),
        int(pid) if pid.isdigit() else None,
        is_piece,
        reader._get_monotonic()[0] / 1e6 + boottime_offset_seconds,  # noqa: SLF001
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
    """Puts the pieces of one process's line together again."""

    def __init__(self) -> None:
        self._pieces: dict[int | None, Entry] = {}

    def add(self, entry: Entry) -> Entry | None:
        """The whole line, None while more of it must come."""
        if not self._pieces and not entry.is_piece:
            return entry
        begun = self._pieces.pop(entry.pid, None)
        if begun is not None:
            entry = Entry(begun.text + entry.text, entry.pid, entry.is_piece, begun.at_seconds)
        if entry.is_piece and len(entry.text) < JOINED_CHARACTERS_MAX:
            self._pieces[entry.pid] = entry
            return None
        return entry

    def rest(self) -> list[Entry]:
        """Lines that never got their end, at the end of the stream."""
        rest = list(self._pieces.values())
        self._pieces.clear()
        return rest
