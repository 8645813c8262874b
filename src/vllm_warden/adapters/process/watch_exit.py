"""Sees the exit of a process through its pidfd, in the event loop, and reaps our own children."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from vllm_warden.adapters.process.identity import identity_of
from vllm_warden.adapters.process.proc_files import PROC
from vllm_warden.core.model import ProcessIdentity


def watch_pidfd(pidfd: int, on_ready: Callable[[], None]) -> None:
    """Call ``on_ready`` once in the running loop when the process has ended; owns the pidfd."""
    loop = asyncio.get_running_loop()

    def fire() -> None:
        loop.remove_reader(pidfd)
        try:
            on_ready()
        finally:
            os.close(pidfd)

    loop.add_reader(pidfd, fire)


def reap(pidfd: int) -> int | None:
    """Status as subprocess counts: exit code, or minus the signal; None when not ours to know."""
    try:
        result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


class WatchedProcess:
    """One process held by pidfd; satisfies ``daemon.ports.Child``.

    Nobody else may wait for it: the exit status can be read only once.
    """

    def __init__(self, identity: ProcessIdentity, pidfd: int) -> None:
        self.identity = identity
        self._pidfd = pidfd
        self._ended = False

    def signal(self, number: int) -> bool:
        """False when the process has ended, or is not ours to signal."""
        if self._ended:
            return False
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def watch_exit(self, on_exit: Callable[[int | None], None]) -> None:
        """Must be called in the event loop, once. An adopted process ends with status None."""

        def ended() -> None:
            self._ended = True
            on_exit(reap(self._pidfd))

        watch_pidfd(self._pidfd, ended)


def adopt(identity: ProcessIdentity, proc: Path = PROC) -> WatchedProcess | None:
    """Take up a process that an earlier daemon started; None when it is no longer that one."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except (ProcessLookupError, OSError):
        return None
    if identity_of(identity.pid, proc) == identity:
        return WatchedProcess(identity, pidfd)
    with contextlib.suppress(OSError):
        os.close(pidfd)
    return None
