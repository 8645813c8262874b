"""Reads the headers of safetensors files: names, types and shapes, never a tensor."""

from __future__ import annotations

import os
import stat
from pathlib import Path

HEADER_BYTES_MAX = 100 << 20
"""The format's own limit (safetensors 0.6, MAX_HEADER_SIZE is 100,000,000)."""


class UnreadableHeaderError(ValueError):
    """The file is no safetensors file, or only a part of one; the message says why."""


def read_header(path: Path) -> bytes:
    """The text of the header. Raises OSError, UnreadableHeaderError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableHeaderError("not a regular file")
        length = int.from_bytes(os.pread(descriptor, 8, 0), "little")
        if not 2 <= length <= min(HEADER_BYTES_MAX, status.st_size - 8):
            raise UnreadableHeaderError("no safetensors header (a pointer, or cut off)")
        content = os.pread(descriptor, length, 8)
    finally:
        os.close(descriptor)
    if not content.lstrip().startswith(b"{"):
        raise UnreadableHeaderError("its header is no JSON object")
    return content
