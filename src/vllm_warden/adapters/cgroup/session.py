"""Tells whether a session that bears the number of an attempt's leader is still the attempt's."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
OUTPUT_DESCRIPTORS = (1, 2)


@dataclass(frozen=True, slots=True)
class Member:
    """One line of /proc/PID/stat, as far as sessions need it."""

    pid: int
    state: str
    parent: int
    session: int
    start_ticks: int

    @property
    def is_dead(self) -> bool:
        return self.state in "ZXx"


def member(pid: int) -> Member | None:
    """None when there is no such process."""
    try:
        content = (PROC / str(pid) / "stat").read_bytes()
        fields = content[content.rfind(b")") + 1 :].split()
        return Member(pid, fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[19]))
    except (OSError, IndexError, ValueError):
        return None


def members_of(session: int) -> Iterator[Member]:
    """The living processes of a session."""
    for entry in PROC.iterdir():
        found = member(int(entry.name)) if entry.name.isdecimal() else None
        if found is not None and found.session == session and not found.is_dead:
            yield found


def bears_mark(pid: int, attempt: int, launch_prefix: str) -> bool:
    """True when the process has the attempt's TMPDIR in its environment, or writes to its log.

    Engine processes that set a title overwrite their environment, their output stays.
    """
    with contextlib.suppress(OSError):
        for variable in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
            if variable.startswith(b"TMPDIR="):
                name = Path(os.fsdecode(variable.removeprefix(b"TMPDIR="))).name
                if name in (launch_prefix, f"vllm-warden-{launch_prefix}"):
                    return True
    for descriptor in OUTPUT_DESCRIPTORS:
        with contextlib.suppress(OSError):
            target = (PROC / str(pid) / "fd" / str(descriptor)).readlink().name
            if target.startswith(f"attempt-{attempt}-{launch_prefix}"):
                return True
    return False
