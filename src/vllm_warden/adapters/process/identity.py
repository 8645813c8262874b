"""Names a process so that another one with the same pid is never mistaken for it."""

from __future__ import annotations

from pathlib import Path

from vllm_warden.adapters.process.proc_files import PROC, read_bytes, read_stat
from vllm_warden.core.model import ProcessIdentity


def identity_of(pid: int, proc: Path = PROC) -> ProcessIdentity | None:
    """None when no such process lives (a zombie still has an identity)."""
    stat = read_stat(pid, proc)
    if stat is None:
        return None
    boot_id = read_bytes(proc / "sys/kernel/random/boot_id").decode("ascii", "replace").strip()
    return ProcessIdentity(pid=pid, start_ticks=stat.start_ticks, boot_id=boot_id)


def is_alive(identity: ProcessIdentity, proc: Path = PROC) -> bool:
    """True when exactly this process lives and is no zombie."""
    stat = read_stat(identity.pid, proc)
    if stat is None or stat.is_dead:
        return False
    return identity_of(identity.pid, proc) == identity
