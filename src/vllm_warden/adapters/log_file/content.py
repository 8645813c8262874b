"""Reads a log file piece by piece; holes cost nothing, however large they claim to be."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass

CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes at an offset; ``after_gap`` when a hole lies before them."""

    offset: int
    content: bytes
    after_gap: bool

    @property
    def end(self) -> int:
        return self.offset + len(self.content)


def read_piece(fd: int, offset: int) -> Piece | None:
    """The next bytes at or behind the offset, None when only a hole or nothing follows.

    The descriptor must not be shared with the engine: its position is moved.
    """
    try:
        begin = os.lseek(fd, offset, os.SEEK_DATA)
        end = os.lseek(fd, begin, os.SEEK_HOLE)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        begin, end = offset, offset + CHUNK_BYTES  # a file system that knows no holes
    content = os.pread(fd, min(CHUNK_BYTES, end - begin), begin)
    return Piece(begin, content, after_gap=begin > offset) if content else None


def pieces(fd: int, offset: int = 0) -> Iterator[Piece]:
    """Everything from the offset to the end."""
    while (piece := read_piece(fd, offset)) is not None:
        yield piece
        offset = piece.end
