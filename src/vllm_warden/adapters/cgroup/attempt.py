"""The cgroup of one attempt: who is in it, is it empty, end it, remove it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

PROC = Path("/proc")
ROOT_PREFIX = "vllm-warden-"
"""A root of our own making; a systemd unit's cgroup is not ours to remove."""


class CgroupAttempt:
    """Satisfies ``daemon.ports.AttemptGroup``; also says whose attempt it is."""

    kind = "cgroup"

    def __init__(self, directory: Path, instance: str, attempt: int, launch_prefix: str) -> None:
        self.path = str(directory)
        self.instance = instance
        self.attempt = attempt
        self.launch_prefix = launch_prefix
        self._directory = directory

    def pids(self) -> tuple[int, ...]:
        """Every living process in it and in groups that the engine made below."""
        return tuple(sorted(pid for one in self._directories() for pid in _members(one)))

    def own_pids(self) -> tuple[int, ...]:
        """Those that sit in no group below it."""
        return tuple(sorted(_members(self._directory)))

    def is_empty(self) -> bool:
        return "populated 1" not in _read(self._directory / "cgroup.events")

    def kill(self) -> None:
        """SIGKILL to all of it, also to what it forks meanwhile (cgroup.kill, Linux 5.14)."""
        try:
            (self._directory / "cgroup.kill").write_text("1", encoding="ascii")
        except OSError:
            self._kill_one_by_one()

    def remove(self) -> None:
        """Ignores a group that is gone, and leaves one that holds processes again."""
        for directory in self._directories():
            with contextlib.suppress(OSError):
                directory.rmdir()
        instance = self._directory.parent
        with contextlib.suppress(OSError):  # other attempts or instances may be there
            instance.rmdir()
            if instance.parent.name.startswith(ROOT_PREFIX):
                instance.parent.rmdir()

    def _directories(self) -> list[Path]:
        """Deepest first; an engine may have made more below each other than Python can recurse."""
        found = [self._directory]
        for directory in found:
            with contextlib.suppress(OSError):
                found.extend(path for path in directory.iterdir() if path.is_dir())
        return found[::-1]

    def _kill_one_by_one(self) -> None:
        for _ in range(20):  # a fork can escape one round, hardly twenty
            pids = self.pids()
            if not pids:
                return
            for pid in pids:
                self._kill_member(pid)

    def _kill_member(self, pid: int) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return
        try:
            if pid in self.pids():  # still in here, so the pidfd is of the right process
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except OSError:
            return
        finally:
            os.close(pidfd)


def _members(directory: Path) -> list[int]:
    """The living ones."""
    pids = [int(word) for word in _read(directory / "cgroup.procs").split()]
    return [pid for pid in pids if not _is_dead(pid)]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def _is_dead(pid: int) -> bool:
    try:
        content = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return True
    return content[content.rfind(b")") + 2 :][:1] in b"ZXx"
