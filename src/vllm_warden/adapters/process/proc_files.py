"""Reads the few files of /proc/PID that the process adapters need, without trusting them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Fields of /proc/PID/stat (proc(5)): state letter, parent, session, start in clock ticks."""

    pid: int
    state: str
    ppid: int
    session: int
    start_ticks: int

    @property
    def is_dead(self) -> bool:
        """Zombie or being removed: holds no memory and will never run again."""
        return self.state in "ZXx"


def read_bytes(path: Path) -> bytes:
    """Content, empty when the process is gone or not ours to look at."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def read_stat(pid: int, proc: Path = PROC) -> ProcessStat | None:
    """None when the process is gone.

    The name in parentheses is the process's own choice and may hold anything, so fields are
    counted from the last closing parenthesis.
    """
    content = read_bytes(proc / str(pid) / "stat")
    fields = content[content.rfind(b")") + 1 :].split()
    try:
        return ProcessStat(
            pid=pid,
            state=fields[0].decode("ascii"),
            ppid=int(fields[1]),
            session=int(fields[3]),
            start_ticks=int(fields[19]),
        )
    except (IndexError, ValueError):
        return None


def all_pids(proc: Path = PROC) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal()]


def command_words(pid: int, proc: Path = PROC) -> list[str]:
    """The command line; undecodable bytes become U+FFFD."""
    content = read_bytes(proc / str(pid) / "cmdline")
    return [word.decode("utf-8", "replace") for word in content.rstrip(b"\0").split(b"\0")]
