"""Makes the daemon the parent of its engines' orphans, and reaps those."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection
from pathlib import Path

from vllm_warden.adapters.process.proc_files import PROC, all_pids, read_stat

PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphans below us become our children (prctl(2)). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def reap_orphans(spare: Collection[int], proc: Path = PROC) -> list[int]:
    """Reap zombies that were reparented to us; returns their pids.

    Engines get a session of their own, so a zombie of our own session is a child that some code
    of ours waits for and is left alone, and so are ``spare``: the children held by pidfd.
    """
    me = os.getpid()
    session = os.getsid(0)
    reaped = []
    for pid in all_pids(proc):
        stat = read_stat(pid, proc)
        if stat is None or stat.ppid != me or not stat.is_dead:
            continue
        if pid in spare or stat.session == session:
            continue
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            continue
        reaped.append(pid)
    return reaped
