"""Decides below which cgroup the attempts go, and moves the daemon out of their way."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from vllm_warden.adapters.cgroup.attempt import ROOT_PREFIX
from vllm_warden.adapters.cgroup.mount import PROC_SELF, find_cgroup2, own_cgroup2

SUPERVISOR = "supervisor"


def root_name(state_directory: Path) -> str:
    """The same for every daemon of a state directory, so that a new one finds the old engines."""
    digest = hashlib.sha256(os.fsencode(state_directory.absolute())).hexdigest()
    return f"{ROOT_PREFIX}{digest[:8]}"


def delegated_unit(own: Path) -> Path | None:
    """The cgroup of the systemd unit that is delegated to us, None outside one.

    systemd marks delegation by an extended attribute (user.delegate since 251, trusted.delegate
    before). With DelegateSubgroup=, or after our own move, we sit one below.
    """
    for candidate in (own, own.parent):
        if candidate is not own and own.name != SUPERVISOR:
            break
        for attribute in ("user.delegate", "trusted.delegate"):
            try:
                if os.getxattr(candidate, attribute) == b"1":
                    return candidate
            except OSError:
                continue
    return None


def enter_supervisor(unit: Path) -> None:
    """Move this process into ``supervisor/`` below the unit. Raises OSError."""
    directory = unit / SUPERVISOR
    directory.mkdir(exist_ok=True)
    (directory / "cgroup.procs").write_text(f"{os.getpid()}\n", encoding="ascii")


def find_place(state_directory: Path, proc_self: Path = PROC_SELF) -> Path | None:
    """The directory below which attempts go, tried out; None when there is none.

    No controller is ever enabled: with one, systemd cannot restart the daemon beside a live
    engine (219/CGROUP, seen with 252).
    """
    own = own_cgroup2(proc_self)
    if own is None:
        return None
    try:
        unit = delegated_unit(own)
        if unit is not None:
            enter_supervisor(unit)
            return unit
        place = own / root_name(state_directory)
        place.mkdir(exist_ok=True)
        os.close(os.open(place / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
    except OSError:
        return None
    with contextlib.suppress(OSError):  # made again with the first attempt; holds some already
        place.rmdir()
    return place


def earlier_places(state_directory: Path, proc_self: Path = PROC_SELF) -> list[Path]:
    """All roots of this state directory, wherever an earlier daemon was started from."""
    mount = find_cgroup2(proc_self)
    if mount is None:
        return []
    name = root_name(state_directory)
    found = []
    for directory, below, _ in os.walk(mount.point):
        if name in below:
            found.append(Path(directory) / name)
    return found
