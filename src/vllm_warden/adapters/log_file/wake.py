"""Waits until a file changed or somebody wakes us, by inotify, without using the CPU meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
from pathlib import Path

IN_MODIFY = 0x02
IN_NONBLOCK = os.O_NONBLOCK
IN_CLOEXEC = os.O_CLOEXEC

POLL_EXPECTING_SECONDS = 0.01
POLL_IDLE_SECONDS = 0.25
SAFETY_SECONDS = 5.0
"""With inotify a look at the file now and then is only insurance, cheap enough to have."""


class FileWake:
    """One thread waits, any thread wakes. Polls where inotify is not to be had (limits)."""

    def __init__(self, path: Path) -> None:
        self._inotify = _watch(path)
        self._pipe_read, self._pipe_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        for fd in (self._inotify, self._pipe_read):
            if fd is not None:
                self._poll.register(fd, select.POLLIN)

    def wait(self, expecting: bool) -> None:
        limit = SAFETY_SECONDS
        if self._inotify is None:
            limit = POLL_EXPECTING_SECONDS if expecting else POLL_IDLE_SECONDS
        for fd, _ in self._poll.poll(limit * 1000):
            with contextlib.suppress(BlockingIOError):
                os.read(fd, 65536)

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._pipe_write, b"w")

    def close(self) -> None:
        for fd in (self._inotify, self._pipe_read, self._pipe_write):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)


def _watch(path: Path) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC))
    if fd < 0:
        return None
    if libc.inotify_add_watch(fd, os.fsencode(path), IN_MODIFY) < 0:
        os.close(fd)
        return None
    return fd
