"""The fallback without a writable cgroup2: an attempt is the session that its parent leads."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

from vllm_warden.adapters.cgroup.memory import memory_limit_bytes, oom_kills
from vllm_warden.adapters.cgroup.naming import (
    INSTANCE,
    AttemptName,
    attempts_below,
    nameless_below,
    others_below,
)
from vllm_warden.adapters.cgroup.session import PROC, Member, bears_mark, member, members_of
from vllm_warden.core.launch_id import launch_prefix

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SessionAttempt:
    """Satisfies ``daemon.ports.AttemptGroup``.

    The child writes its pid into ``cgroup.procs`` in our directory, as it would in a cgroup, and
    the spawner notes in ``leader`` which process that was. A session's number is not given out
    again while one of its processes lives (kernel/pid.c), so one process that is certainly the
    attempt's vouches for all of its session: the leader itself, one that was seen while another
    vouched for it, or one that bears the attempt's mark. Where none does, the number may be a
    stranger's by now, and nothing is reported or killed.
    """

    kind = "process_group"

    def __init__(self, directory: Path, instance: str, attempt: int, launch_prefix: str) -> None:
        self.path = str(directory)
        self.instance = instance
        self.attempt = attempt
        self.launch_prefix = launch_prefix
        self._directory = directory
        self._known: frozenset[tuple[int, int]] = frozenset()

    def pids(self) -> tuple[int, ...]:
        return tuple(sorted(one.pid for one in self._members()))

    def is_empty(self) -> bool:
        return not self._members()

    def kill(self) -> None:
        for _ in range(20):  # a fork can escape one round, hardly twenty
            members = self._members()
            if not members:
                return
            for one in members:
                _kill(one)

    def remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._directory.parent.rmdir()

    def _members(self) -> list[Member]:
        """Living processes of the session, if it is certainly this attempt's."""
        session, not_before = self._session()
        if session is None:
            return []
        leader, noted_ticks = member(session), self._noted_ticks(session)
        if leader is not None and noted_ticks not in (None, leader.start_ticks):
            return []  # the number was given out again, so nothing is left of the session
        found = [one for one in members_of(session) if one.start_ticks >= not_before]
        # a child of ours that we have not reaped can be nobody else
        is_leader_there = leader is not None and (noted_ticks or leader.parent == os.getpid())
        if not is_leader_there and not any(self._is_certain(one) for one in found):
            return []
        self._known = frozenset((one.pid, one.start_ticks) for one in found)
        return found

    def _is_certain(self, one: Member) -> bool:
        if (one.pid, one.start_ticks) in self._known:
            return True
        return bears_mark(one.pid, self.attempt, self.launch_prefix)

    def _session(self) -> tuple[int | None, int]:
        """The session's number, and the tick before which none of its processes began."""
        try:
            words = (self._directory / "cgroup.procs").read_text(encoding="ascii").split()
            boot_id, ticks = (self._directory / "made").read_text(encoding="ascii").split()
            if not words or boot_id != BOOT_ID.read_text(encoding="ascii").strip():
                return None, 0
            return int(words[0]), int(ticks)
        except (OSError, ValueError):
            return None, 0

    def _noted_ticks(self, session: int) -> int | None:
        """When the leader began; None when the daemon died before it could note that."""
        try:
            pid, ticks = (self._directory / "leader").read_text(encoding="ascii").split()
            return int(ticks) if int(pid) == session else None
        except (OSError, ValueError):
            return None


def _kill(one: Member) -> None:
    """SIGKILL, if the pid still is this process."""
    try:
        pidfd = os.pidfd_open(one.pid)
    except OSError:
        return
    try:
        now = member(one.pid)
        if now is not None and (now.session, now.start_ticks) == (one.session, one.start_ticks):
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
        return [group for group in self._all() if not group.is_empty()]

    def remove_empty(self) -> None:
        for group in self._all():
            if group.is_empty():
                group.remove()

    def strange(self) -> Sequence[str]:
        """A number in an entry without a launch's name proves nothing about any process."""
        nameless = [path for _, path in nameless_below(self.root)]
        others = [path for path in others_below(self.root) if not INSTANCE.fullmatch(path.name)]
        return [f"{path}: no entry of an attempt" for path in (*nameless, *others)]

    def _all(self) -> list[SessionAttempt]:
        return [self._attempt(name) for name in attempts_below(self.root)]

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
