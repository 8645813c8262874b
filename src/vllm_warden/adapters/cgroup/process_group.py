"""The fallback without a writable cgroup2: an attempt is the session that its parent leads."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vllm_warden.adapters.cgroup.memory import memory_limit_bytes, oom_kills
from vllm_warden.adapters.cgroup.naming import AttemptName, attempts_below, launch_prefix

PROC = Path("/proc")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Member:
    """One line of /proc/PID/stat, as far as sessions need it."""

    pid: int
    state: str
    session: int
    start_ticks: int


class SessionAttempt:
    """Satisfies ``daemon.ports.AttemptGroup``.

    The child writes its pid into ``cgroup.procs`` in our directory, as it would in a cgroup. A
    session number is not given out again while one of its processes lives, so members that
    started before the directory, or on another boot, are the only strangers to keep out.
    """

    kind = "process_group"

    def __init__(self, directory: Path, instance: str, attempt: int, launch_prefix: str) -> None:
        self.path = str(directory)
        self.instance = instance
        self.attempt = attempt
        self.launch_prefix = launch_prefix
        self._directory = directory

    def pids(self) -> tuple[int, ...]:
        session, not_before = self._session()
        if session is None:
            return ()
        return tuple(
            sorted(
                member.pid
                for member in _members()
                if member.session == session
                and member.state not in "ZXx"
                and member.start_ticks >= not_before
            )
        )

    def is_empty(self) -> bool:
        return not self.pids()

    def kill(self) -> None:
        for _ in range(20):  # a fork can escape one round, hardly twenty
            pids = self.pids()
            for pid in pids:
                self._kill_member(pid)
            if not pids:
                return

    def remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._directory.parent.rmdir()

    def _session(self) -> tuple[int | None, int]:
        try:
            words = (self._directory / "cgroup.procs").read_text(encoding="ascii").split()
            boot_id, ticks = (self._directory / "made").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return None, 0
        if not words or boot_id != BOOT_ID.read_text(encoding="ascii").strip():
            return None, 0
        return int(words[0]), int(ticks)

    def _kill_member(self, pid: int) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return
        try:
            if pid in self.pids():
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except OSError:
            return
        finally:
            os.close(pidfd)


class ProcessGroups:
    """Satisfies ``daemon.ports.Groups``. An engine that calls setsid itself would escape it."""

    kind = "process_group"

    def __init__(
        self, directory: Path, own_cgroup: Path | None = None, memory_v1: Path | None = None
    ) -> None:
        self.root = directory
        self._own_cgroup = own_cgroup
        self._memory_v1 = memory_v1

    def create(self, instance: str, attempt: int, launch_id: str) -> SessionAttempt:
        name = AttemptName(instance, attempt, launch_prefix(launch_id))
        directory = name.below(self.root)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        boot_id = BOOT_ID.read_text(encoding="ascii").strip()
        (directory / "made").write_text(f"{boot_id} {_now_ticks()}\n", encoding="ascii")
        (directory / "cgroup.procs").write_text("", encoding="ascii")
        return self._attempt(name)

    def leftovers(self) -> Sequence[SessionAttempt]:
        found = []
        for name in attempts_below(self.root):
            group = self._attempt(name)
            if group.is_empty():
                group.remove()
            else:
                found.append(group)
        return found

    def oom_kills(self) -> int:
        return oom_kills(self._own_cgroup, self._memory_v1)

    def memory_limit_bytes(self) -> int | None:
        return memory_limit_bytes(self._own_cgroup, self._memory_v1)

    def _attempt(self, name: AttemptName) -> SessionAttempt:
        return SessionAttempt(
            name.below(self.root), name.instance, name.attempt, name.launch_prefix
        )


def _now_ticks() -> int:
    """Now on the scale of a process's start time: clock ticks since boot."""
    uptime_seconds = float((PROC / "uptime").read_text(encoding="ascii").split()[0])
    return int(uptime_seconds * os.sysconf("SC_CLK_TCK")) - 1


def _members() -> list[Member]:
    found = []
    for entry in PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            content = (entry / "stat").read_bytes()
            fields = content[content.rfind(b")") + 1 :].split()
            found.append(
                Member(int(entry.name), fields[0].decode(), int(fields[3]), int(fields[19]))
            )
        except (OSError, IndexError, ValueError):
            continue
    return found
