"""Reads a growing file in order, and jumps ahead where reading cannot keep up with the writer."""

from __future__ import annotations

import os

from vllm_warden.adapters.log_file.content import pieces, read_piece

BEHIND_BYTES_MAX = 64 << 20
"""So far a reader may lag: what has not been read cannot be freed by the cap on the file."""

KEPT_BYTES = 4 << 20
"""The newest part, which is read after a jump: it holds what an engine says when it dies."""

COUNTED_BYTES_MAX = 256 << 20
"""Lines are counted in no more than this of what is jumped over."""


class FileFollower:
    """Belongs to one thread; ``has_lost`` may be asked by any.

    ``dropped_bytes`` were jumped over, with about ``dropped_lines`` lines in them.
    """

    def __init__(self, fd: int) -> None:
        """The descriptor must not be shared with the engine: its position is moved."""
        self._fd = fd
        self.offset = 0
        self.has_lost = False
        self.dropped_bytes = 0
        self.dropped_lines = 0

    def next(self, behind_bytes_max: int = BEHIND_BYTES_MAX) -> bytes | None:
        """The next bytes, b"" while there are none, None where some are missing.

        Missing are those jumped over, and holes, which an engine makes when it moves its end of
        the file (ftruncate) and which would take for ever to read. Raises OSError.
        """
        status = os.fstat(self._fd)
        size = status.st_size
        if size == self.offset:
            return b""
        if size < self.offset:  # cut off by the engine: nobody knows what went
            self.offset, self.has_lost = size, True
            return None
        piece = read_piece(self._fd, self.offset)
        if piece is None:
            return b""
        if piece.after_gap:
            self.offset = piece.offset
            return None
        behind = min(size - self.offset, status.st_blocks * 512)  # a hole is nothing to catch up
        if behind > max(behind_bytes_max, KEPT_BYTES):
            self._jump(size - KEPT_BYTES)
            return None
        self.offset = piece.end
        return piece.content

    def _jump(self, target: int) -> None:
        self.has_lost = True
        self.dropped_bytes += target - self.offset
        counted_to = min(target, self.offset + COUNTED_BYTES_MAX)
        for piece in pieces(self._fd, self.offset):
            if piece.offset >= counted_to:
                break
            self.dropped_lines += piece.content[: counted_to - piece.offset].count(b"\n")
        self.offset = target
