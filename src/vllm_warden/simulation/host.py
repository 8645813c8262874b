"""Makes simulated GPUs and keeps their books: who holds how many bytes of which one."""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
ENVIRONMENT = "WARDEN_SIMULATED_GPUS"
"""Names the directory of the simulated GPUs, for the NVML stand-in and the stand-in engine."""

TOTAL_MIB = 97_887
"""What ``nvidia-smi`` shows for an RTX PRO 6000 Blackwell Server Edition."""

RESERVED_MIB = 637
"""Kept by driver and firmware: CUDA programs see 97,250 MiB, 94.97 GiB."""

NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def make_host(
    directory: Path,
    *,
    gpus: int = 8,
    total_mib: int = TOTAL_MIB,
    reserved_mib: int = RESERVED_MIB,
    name: str = NAME,
    linger_seconds: float = 0,
) -> Path:
    """Write the directory of a host with idle GPUs and return it."""
    directory.mkdir(parents=True, exist_ok=True)
    host = zlib.crc32(os.fsencode(directory.absolute()))  # no two hosts have the same GPU
    (directory / "linger_seconds").write_text(f"{linger_seconds}\n")
    for index in range(gpus):
        gpu = directory / f"gpu{index}"
        (gpu / "procs").mkdir(parents=True, exist_ok=True)
        (gpu / "name").write_text(f"{name}\n")
        (gpu / "uuid").write_text(f"GPU-{host:08x}-0000-4000-8000-{index:012d}\n")
        (gpu / "total").write_text(f"{total_mib * MIB}\n")
        (gpu / "reserved").write_text(f"{reserved_mib * MIB}\n")
    return directory


def gpu_count(directory: Path) -> int:
    """How many consecutive ``gpuN`` folders there are."""
    count = 0
    while (directory / f"gpu{count}").is_dir():
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class Gpu:
    """One simulated GPU; reads as the NVML stand-in does, writes for the process ``pid``."""

    directory: Path

    @property
    def total_bytes(self) -> int:
        """What CUDA calls the total: the board's memory without what the driver keeps."""
        return self._number("total") - self._number("reserved")

    def hold(self, pid: int, held_bytes: int) -> None:
        """From now on ``pid`` holds so many bytes (not: so many more)."""
        procs = self.directory / "procs"
        procs.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (procs / f"{pid}.dead").unlink()  # an earlier process had this pid
        scratch = procs / f".{pid}"
        scratch.write_text(f"{held_bytes}\n")
        scratch.replace(procs / str(pid))

    def others(self, pid: int) -> tuple[dict[int, int], int]:
        """Bytes of other living processes by pid, and bytes that belong to no living one."""
        living: dict[int, int] = {}
        nobody = self._number("stuck")
        for entry in self._entries():
            held = _read_number(entry)
            owner = int(entry.name)
            if owner == pid:
                continue
            if is_alive(owner):
                living[owner] = held
            else:
                nobody += self._lingering(entry, held)
        return living, nobody

    def _entries(self) -> list[Path]:
        procs = self.directory / "procs"
        try:
            return [entry for entry in procs.iterdir() if entry.name.isdigit()]
        except FileNotFoundError:
            return []

    def _number(self, name: str) -> int:
        return _read_number(self.directory / name)

    def _lingering(self, entry: Path, held_bytes: int) -> int:
        try:
            linger_seconds = float((self.directory.parent / "linger_seconds").read_text())
        except (FileNotFoundError, ValueError):
            return 0
        if linger_seconds <= 0:
            return 0
        marker = entry.with_name(f"{entry.name}.dead")
        try:
            with marker.open("x"):
                return held_bytes
        except FileExistsError:
            age_seconds = max(0.0, time.time() - marker.stat().st_mtime)
        return int(held_bytes * max(0.0, 1 - age_seconds / linger_seconds))


def is_alive(pid: int) -> bool:
    """False for a pid that is gone, and for a zombie: neither has memory any more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rsplit(")", 1)[-1].split()[0] not in {"Z", "X"}


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return 0
