"""Reads OOM-kill counters and memory limits that apply to the daemon and so to its engines."""

from __future__ import annotations

from pathlib import Path

NO_LIMIT_BYTES = 1 << 60
"""cgroup v1 writes "no limit" as 2^63 rounded down to a page; no host has 2^60 bytes."""


def oom_kills(unit: Path | None, memory_v1: Path | None) -> int:
    """The kernel's count of OOM kills in our unit: v2 memory.events, else v1 oom_control; else 0.

    memory.events counts the whole subtree, so engines in sub-cgroups are included.
    """
    if unit is not None and (counted := _field(unit / "memory.events")) is not None:
        return counted
    if memory_v1 is not None:
        return _field(memory_v1 / "memory.oom_control") or 0
    return 0


def memory_limit_bytes(unit: Path | None, memory_v1: Path | None) -> int | None:
    """The tightest limit from our own group up to the root; None when there is none."""
    limits = []
    for start, name in ((unit, "memory.max"), (memory_v1, "memory.limit_in_bytes")):
        if start is None:
            continue
        for directory in (start, *start.parents):
            text = _read(directory / name).strip()
            if text.isdecimal() and int(text) < NO_LIMIT_BYTES:
                limits.append(int(text))
    return min(limits, default=None)


def _field(path: Path) -> int | None:
    for line in _read(path).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "oom_kill":
            return int(words[1])
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
