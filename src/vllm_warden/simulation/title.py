"""Gives a process the name that ``ps`` and nvidia-smi show, as setproctitle does."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def set_title(title: str) -> None:
    """Overwrite the argument area of this process, and its 15-character command name.

    The area starts and ends where /proc/self/stat says (fields 48 and 49, proc(5)).
    """
    fields = Path("/proc/self/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    start, end = int(fields[45]), int(fields[46])
    text = title.encode()[: max(0, end - start - 1)]
    if start and text:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, text, len(text))
    Path("/proc/self/comm").write_bytes(os.fsencode(title[:15]))
