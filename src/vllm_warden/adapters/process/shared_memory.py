"""Finds what processes keep in /dev/shm, and removes what nobody uses any more."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from vllm_warden.adapters.process.proc_files import PROC, all_pids, read_bytes
from vllm_warden.core.model import SharedFile

INIT = 1
"""Some virtual machines let nobody look at it, and it uses no engine's memory."""
SHARED = Path("/dev/shm")  # noqa: S108 -- that is what we look at


class HostSharedMemory:
    """Satisfies ``daemon.ports.SharedMemory``."""

    def of(self, pids: Sequence[int]) -> frozenset[SharedFile]:
        return shared_files(pids)

    def remove_unused(self, files: frozenset[SharedFile]) -> Sequence[str]:
        return remove_unused(files)


def shared_files(
    pids: Iterable[int], proc: Path = PROC, shared: Path = SHARED
) -> frozenset[SharedFile]:
    """What these processes have open or mapped there, as far as we may look."""
    used = {key for pid in pids for key in _used_by(pid, proc) or ()}
    return frozenset(file for file in list_shared(shared) if (file.device, file.inode) in used)


def list_shared(shared: Path = SHARED) -> list[SharedFile]:
    """Regular files only, by name."""
    found = []
    try:
        entries = sorted(os.scandir(shared), key=lambda entry: entry.name)
    except OSError:
        return []
    for entry in entries:
        try:
            if entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                found.append(SharedFile(entry.name, status.st_dev, status.st_ino))
        except OSError:
            continue
    return found


def unused(files: Iterable[SharedFile], proc: Path = PROC) -> frozenset[SharedFile]:
    """Those that no living process has open or mapped.

    A process that we may not look at may use any of them: then none is.
    """
    used: set[tuple[int, int]] = set()
    for pid in all_pids(proc):
        keys = _used_by(pid, proc)
        if keys is None and pid != INIT:
            return frozenset()
        used |= keys or set()
    return frozenset(file for file in files if (file.device, file.inode) not in used)


def remove_unused(
    files: Iterable[SharedFile], proc: Path = PROC, shared: Path = SHARED
) -> Sequence[str]:
    """Remove those of ``files`` that nobody uses; their names. Looks at every process."""
    there = set(list_shared(shared)) & set(files)
    removed = []
    for file in sorted(unused(there, proc), key=lambda one: one.name) if there else ():
        try:
            (shared / file.name).unlink()
        except OSError:
            continue
        removed.append(file.name)
    return removed


def _used_by(pid: int, proc: Path) -> set[tuple[int, int]] | None:
    """Device and inode of every file that the process has open or mapped; None: not to be told."""
    directory = proc / str(pid)
    found: set[tuple[int, int]] = set()
    try:
        for descriptor in (directory / "fd").iterdir():
            try:
                status = descriptor.stat()
            except OSError:
                continue
            found.add((status.st_dev, status.st_ino))
        with (directory / "maps").open("rb"):
            pass
    except (FileNotFoundError, ProcessLookupError):
        return set()
    except OSError:
        return None
    for line in read_bytes(directory / "maps").splitlines():
        fields = line.split(None, 5)
        if len(fields) > 5 and fields[4] != b"0":
            major, _, minor = fields[3].partition(b":")
            found.add((os.makedev(int(major, 16), int(minor, 16)), int(fields[4])))
    return found
