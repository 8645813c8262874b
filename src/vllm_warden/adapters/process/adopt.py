"""Looks at processes that an earlier daemon spawned, and takes up their parent."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from vllm_warden.adapters.process.identity import identity_of
from vllm_warden.adapters.process.proc_files import PROC, command_words, read_bytes, read_stat
from vllm_warden.adapters.process.watch_exit import WatchedProcess, adopt
from vllm_warden.core.model import ProcessIdentity

PIDFD_GETFD = 438
"""System call number of pidfd_getfd(2), the same on every architecture (Linux 5.6)."""
JOURNAL = b"/run/systemd/journal/stdout"
STDOUT = 1


class EarlierProcesses:
    """Satisfies ``daemon.ports.Adopter``."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc

    def leader(self, pids: Sequence[int]) -> ProcessIdentity | None:
        """The oldest session leader among them: orphans that lead sessions too came later."""
        stats = {pid: stat for pid in pids if (stat := read_stat(pid, self._proc)) is not None}
        leaders = [
            (stat.start_ticks, pid)
            for pid, stat in stats.items()
            if stat.session == pid and stat.ppid not in stats and not stat.is_dead
        ]
        return identity_of(min(leaders)[1], self._proc) if leaders else None

    def adopt(self, identity: ProcessIdentity) -> WatchedProcess | None:
        return adopt(identity, self._proc)

    def words(self, pid: int) -> Sequence[str]:
        return command_words(pid, self._proc)

    def variable(self, pid: int, name: str) -> str | None:
        start = f"{name}=".encode()
        for entry in read_bytes(self._proc / str(pid) / "environ").split(b"\0"):
            if entry.startswith(start):
                return entry.removeprefix(start).decode("utf-8", "replace")
        return None

    def output_of(self, pid: int) -> int | None:
        """Only a stream of journald's: an engine may have put anything in its place."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return None
        try:
            fd = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, pidfd, STDOUT, 0)
        finally:
            os.close(pidfd)
        if fd < 0:
            return None
        if _is_journal_stream(fd):
            return int(fd)
        os.close(fd)
        return None


def _is_journal_stream(fd: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(fd)) as stream:
            return stream.family == socket.AF_UNIX and stream.getpeername() in (
                JOURNAL,
                JOURNAL.decode(),
            )
    except OSError:
        return False
