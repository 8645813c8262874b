"""Finds where the last lines of a log file begin, so that only they need to be taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vllm_warden.adapters.log_file.content import Piece, pieces

TAIL_BYTES_MAX = 64 << 20
"""Lines may be megabytes long: no question for the last ones reads more of the file than this."""

LINE = re.compile(rb"[^\s\0\x1c-\x1f][^\n\0]*")
LINE_END = re.compile(rb"[\n\0]")


@dataclass(frozen=True, slots=True)
class Place:
    """An offset, what lies before it (holes left out), and whether a line goes on there."""

    offset: int = 0
    bytes_before: int = 0
    lines: int = 0
    inside: bool = False


def place_of_last(fd: int, last_lines: int) -> Place:
    """A place before the last lines, near them, or ``TAIL_BYTES_MAX`` before the end.

    Counts as ``LineCutter`` does, at a tenth of its price: some 0.1 s for a full file of 256 MiB.
    """
    places = [Place()]
    for piece in pieces(fd):
        places.append(_after(places[-1], piece))
    end = places[-1]
    for place in reversed(places):
        enough = end.lines - place.lines > last_lines
        if enough or end.bytes_before - place.bytes_before >= TAIL_BYTES_MAX:
            return place
    return places[0]


def _after(place: Place, piece: Piece) -> Place:
    """The place behind the piece."""
    content, begin = piece.content, 0
    bytes_before = place.bytes_before + len(content)
    if place.inside or piece.after_gap:
        line_end = LINE_END.search(content)
        if line_end is None:
            return Place(piece.end, bytes_before, place.lines, inside=True)
        begin = line_end.start()
    lines = place.lines + len(LINE.findall(content, begin))
    last = max(content.rfind(b"\n"), content.rfind(b"\0"), begin - 1) + 1
    return Place(piece.end, bytes_before, lines, inside=LINE.search(content, last) is not None)
