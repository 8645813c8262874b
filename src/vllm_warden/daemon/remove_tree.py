"""Removes what an engine left in its own directory, however it made that directory look."""

from __future__ import annotations

import os
import secrets
import stat
import time
from itertools import islice
from pathlib import Path

REMOVE_SECONDS = 60.0
AT_ONCE = 4096
"""Names read before they are removed: a directory may hold millions."""

DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(directory: Path, limit_seconds: float = REMOVE_SECONDS) -> str | None:
    """None when it is gone, otherwise why not; what could not be removed stays. Blocks.

    No symlink is followed, nothing mounted below is touched, and depth costs neither stack nor
    descriptors: what lies deeper is moved up before it is removed.
    """
    try:
        top = _take(str(directory), None, None)
    except FileNotFoundError:
        return None
    except OSError as error:
        return _reason(error)
    try:
        _Removal(top, time.monotonic() + limit_seconds).empty_top()
        directory.rmdir()
    except OSError as error:
        return _reason(error) if os.path.lexists(directory) else None  # somebody was faster
    finally:
        os.close(top)
    return None


class _Removal:
    def __init__(self, top: int, deadline: float) -> None:
        self._top = top
        self._device = os.fstat(top).st_dev
        self._deadline = deadline

    def empty_top(self) -> None:
        while names := _some_names(self._top):
            for name in names:
                self._check_time()
                if not _unlink(name, self._top):
                    self._dissolve(name)

    def _dissolve(self, name: str) -> None:
        """Remove one directory of the top, its own directories moved up into the top."""
        opened = _take(name, self._top, self._device)
        try:
            while names := _some_names(opened):
                for child in names:
                    self._check_time()
                    if not _unlink(child, opened):
                        os.close(_take(child, opened, self._device))
                        above = f"up-{secrets.token_hex(12)}"
                        os.rename(child, above, src_dir_fd=opened, dst_dir_fd=self._top)
        finally:
            os.close(opened)
        os.rmdir(name, dir_fd=self._top)

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError("it holds more than could be removed in time")


def _take(name: str, parent: int | None, device: int | None) -> int:
    """Open a directory that may forbid it, if it lies on the device."""
    place = os.open(name, os.O_PATH | DIRECTORY, dir_fd=parent)
    try:
        status = os.fstat(place)
        if device not in (None, status.st_dev):
            raise OSError("something is mounted in it")
        itself = f"/proc/self/fd/{place}"
        if stat.S_IMODE(status.st_mode) & 0o700 != 0o700:
            os.chmod(itself, 0o700)  # noqa: PTH101 -- by descriptor, so that no name is followed
        return os.open(itself, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(place)


def _some_names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in islice(entries, AT_ONCE)]


def _unlink(name: str, parent: int) -> bool:
    """False for a directory."""
    try:
        os.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        return False
    except FileNotFoundError:
        pass  # somebody was faster
    return True


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
