"""Finds where the last lines of a log file begin, so that only they need to be taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vllm_warden.adapters.log_file.content import pieces

TAIL_BYTES_MAX = 64 << 20
"""Lines may be megabytes long: no question for the last ones reads more of the file than this."""

LINE = re.compile(rb"[^\s\0\x1c-\x1f][^\n\0]*")
LINE_END = re.compile(rb"[\n\0]")


@dataclass(frozen=True, slots=True)
class Place:
    """An offset, how many lines begin before it, and whether the last of them goes on there."""

    offset: int = 0
    lines: int = 0
    inside: bool = False


def place_of_last(fd: int, last_lines: int) -> Place:
    """A place before the last lines, near them, or ``TAIL_BYTES_MAX`` before the end.

    Counts as ``LineCutter`` does, at a tenth of its price: some 0.1 s for a full file of 256 MiB.
    """
    places = [Place()]
    for piece in pieces(fd):
        if piece.end > places[-1].offset:
            places.append(
                _after(places[-1], piece.content, after_gap=piece.after_gap, at=piece.end)
            )
    end = places[-1]
    for place in reversed(places):
        enough = end.lines - place.lines > last_lines
        if enough or end.offset - place.offset >= TAIL_BYTES_MAX:
            return place
    return places[0]


def _after(place: Place, content: bytes, *, after_gap: bool, at: int) -> Place:
    """The place behind these bytes."""
    begin = 0
    if place.inside or after_gap:
        line_end = LINE_END.search(content)
        if line_end is None:
            return Place(at, place.lines, inside=True)
        begin = line_end.start()
    lines = place.lines + len(LINE.findall(content, begin))
    last = max(content.rfind(b"\n"), content.rfind(b"\0"), begin - 1) + 1
    return Place(at, lines, inside=LINE.search(content, last) is not None)
