"""Bounds the disk that logs use: holes in the middle of a long one, old attempts removed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from pathlib import Path

CAP_BYTES = 256 * 1024 * 1024
HEAD_BYTES = 16 * 1024 * 1024
"""Start-up lines: what was asked, versions, memory figures."""

KEEP_ATTEMPTS = 20
PUNCH_HOLE = 0x02 | 0x01
"""FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE (linux/falloc.h)."""

NAME = re.compile(r"attempt-(\d+)-[0-9A-Za-z_-]+\.log")


def punch_middle(fd: int, read_bytes: int, cap_bytes: int = CAP_BYTES) -> bool:
    """Free the blocks between the head and the newest part; True when something was freed.

    Engines append, so the file itself cannot be shortened under them. Only what has been read
    (the first ``read_bytes``) is given up. The hole reads as NUL bytes, which end lines.
    """
    status = os.fstat(fd)
    used_bytes = status.st_blocks * 512
    head_bytes = min(HEAD_BYTES, cap_bytes // 16)
    end = min(read_bytes, status.st_size - cap_bytes // 2)
    if used_bytes <= cap_bytes or end <= head_bytes:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    offset, length = ctypes.c_int64(head_bytes), ctypes.c_int64(end - head_bytes)
    return bool(libc.fallocate64(fd, PUNCH_HOLE, offset, length) == 0)


def remove_old_attempts(directory: Path, keep: int = KEEP_ATTEMPTS) -> None:
    """Remove the files of all but the newest attempts, by number."""
    numbered = []
    for path in directory.iterdir():
        match = NAME.fullmatch(path.name)
        if match:
            numbered.append((int(match[1]), path))
    for _, path in sorted(numbered)[: max(0, len(numbered) - keep)]:
        with contextlib.suppress(OSError):
            path.unlink()
