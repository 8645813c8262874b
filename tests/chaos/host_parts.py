"""Parts of a host that only chaos needs: a small disk of its own, a wall clock that jumps."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
from pathlib import Path

CLONE_NEWNS = 0x00020000
DISK_MEGABYTES = 64
WALL_CLOCK = Path(__file__).with_name("wall_clock.c")


class SmallDisk:
    """A tmpfs for the state directory, mounted where only we and our children see it.

    It goes with the last of us, however we end.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.problem = _mounted(directory)
        self._ballast = directory / "ballast"

    def fill(self) -> None:
        """Leave no room at all, also while others still write."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def end(self) -> None:
        if self.problem is None:
            subprocess.run(["umount", "--lazy", str(self.directory)], check=False)

    @property
    def is_full(self) -> bool:
        return self._ballast.exists()


def _mounted(directory: Path) -> str | None:
    """Why it could not be."""
    directory.mkdir()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        return os.strerror(ctypes.get_errno())
    size = f"size={DISK_MEGABYTES}m,mode=750"
    for words in (
        ["mount", "--make-rprivate", "/"],
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(directory)],
    ):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return done.stderr.strip()
    return None


class WallClock:
    """What the daemon takes for the time of day; its other clocks are the host's."""

    def __init__(self, directory: Path) -> None:
        self._off = directory / "clock-is-off-by"
        library = directory / "wall_clock.so"
        compiler = shutil.which("cc") or shutil.which("gcc") or "cc"
        words = [compiler, "-O2", "-fPIC", "-shared", "-o", str(library), str(WALL_CLOCK), "-ldl"]
        subprocess.run(words, check=True)
        # engines inherit LD_PRELOAD, but not where the difference is written
        self.environment = {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(self._off)}
        self.jump(0)

    def jump(self, off_seconds: int) -> None:
        new = self._off.with_suffix(".new")
        new.write_text(str(off_seconds))
        new.replace(self._off)
