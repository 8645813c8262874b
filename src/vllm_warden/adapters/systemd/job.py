"""Asks systemd why our unit is being ended: to stay stopped, or to be started again."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

_UNIT = re.compile(r"/([^/]+\.service)(?=/|$)")
LIMIT_SECONDS = 3.0


def unit_goes_on(
    cgroup_file: Path = Path("/proc/self/cgroup"), systemctl: str = "systemctl"
) -> bool:
    """True where our unit is to be started again, or nobody can tell: then engines are left alone.

    False outside of a unit, and where systemd says that the unit is to be stopped. While it asks
    us to end, its job is still in the list. Blocks up to 3 s.
    """
    path = _own_path(cgroup_file)
    units = _UNIT.findall(path)
    if not units or "NOTIFY_SOCKET" not in os.environ:
        return False
    scope = ["--user"] if "/user@" in path else []
    words = [systemctl, *scope, "list-jobs", "--plain", "--no-legend", "--no-pager", "--full"]
    try:
        answer = subprocess.run(
            words, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return True
    for line in answer.stdout.splitlines():
        _, unit, kind, *_ = [*line.split(), "", "", ""]
        if unit == units[-1]:
            return kind != "stop"
    return True


def _own_path(cgroup_file: Path) -> str:
    """Our place in the one hierarchy of cgroup2, "" where there is none."""
    try:
        content = cgroup_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in content.splitlines():
        hierarchy, _, path = line.partition("::")
        if hierarchy == "0":
            return path
    return ""
