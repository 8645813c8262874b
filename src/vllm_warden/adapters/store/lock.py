"""Lets one daemon at a time use a state directory."""

from __future__ import annotations

import fcntl
import getpass
import os
from pathlib import Path


class AlreadyRunning(Exception):  # noqa: N818
    """Another daemon holds the state directory; ``pid`` is 0 where it could not be read."""

    def __init__(self, directory: Path, pid: int) -> None:
        super().__init__(
            f"cannot use {directory}: another vllm-wardend (pid {pid or '?'}) is running on it; "
            "stop that one or choose another state_directory"
        )
        self.pid = pid


class StateDirectoryError(Exception):
    """The state directory cannot be made or written."""


class StateLock:
    """Holds ``<state>/daemon.lock`` until closed or until this process ends (flock)."""

    def __init__(self, directory: Path) -> None:
        """Raises AlreadyRunning, StateDirectoryError."""
        self._fd = _open(directory)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _pid_inside(self._fd)
            os.close(self._fd)
            raise AlreadyRunning(directory, pid) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        os.close(self._fd)


def _open(directory: Path) -> int:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o750)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        return os.open(directory / "daemon.lock", flags, 0o640)
    except OSError as error:
        raise StateDirectoryError(
            f"cannot write the state directory {directory} as user {_user()}: {error.strerror}; "
            "change its owner or set daemon.state_directory"
        ) from error


def _pid_inside(fd: int) -> int:
    text = os.pread(fd, 32, 0).strip()
    return int(text) if text.isdigit() else 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())
