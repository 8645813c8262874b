"""Finds the cgroup2 mount, our own place in it, and the v1 memory group of hybrid hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PROC_SELF = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Mount:
    """One cgroup mount: where it is, and which directory of the hierarchy is mounted there."""

    point: Path
    root: str


def find_cgroup2(proc_self: Path = PROC_SELF) -> Mount | None:
    """On hybrid hosts this is /sys/fs/cgroup/unified, so it is never guessed."""
    return _find(proc_self, "cgroup2", option="")


def find_memory_v1(proc_self: Path = PROC_SELF) -> Mount | None:
    return _find(proc_self, "cgroup", option="memory")


def own_cgroup2(proc_self: Path = PROC_SELF) -> Path | None:
    """The directory of our own cgroup; None without cgroup2 or when it is outside the mount."""
    return _own(proc_self, find_cgroup2(proc_self), controller="")


def own_memory_v1(proc_self: Path = PROC_SELF) -> Path | None:
    return _own(proc_self, find_memory_v1(proc_self), controller="memory")


def _find(proc_self: Path, kind: str, option: str) -> Mount | None:
    """First mount of that kind in mountinfo (proc(5)), with the option when one is asked for."""
    for line in (proc_self / "mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) < 5 or len(tail) < 3 or tail[0] != kind:
            continue
        if option and option not in tail[2].split(","):
            continue
        return Mount(point=Path(_unescape(fields[4])), root=_unescape(fields[3]))
    return None


def _own(proc_self: Path, mount: Mount | None, controller: str) -> Path | None:
    if mount is None:
        return None
    for line in (proc_self / "cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller not in controllers.split(","):
            continue
        # A bind mount (container without a cgroup namespace) shows only a part of the tree.
        root = "" if mount.root == "/" else mount.root
        if path == root or path.startswith(f"{root}/"):
            directory = mount.point / path[len(root) :].lstrip("/")
            return directory if directory.is_dir() else None
    return None


def _unescape(text: str) -> str:
    """Mountinfo writes blanks and backslashes as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
