"""Names the owner and the command of a process that holds GPU memory."""

from __future__ import annotations

import pwd
from pathlib import Path

PROC = Path("/proc")
COMMAND_CHARACTERS_MAX = 120
HOST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h."""


def user_of(pid: int, proc: Path = PROC) -> str:
    """User name, or the number where it has none; ``?`` when the process is gone."""
    try:
        uid = (proc / str(pid)).stat().st_uid
    except OSError:
        return "?"
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def is_gone(pid: int, proc: Path = PROC) -> bool:
    """Never said in a container: NVML shows the host's numbers there, which are not ours."""
    try:
        is_host = (proc / "self/ns/pid").stat().st_ino == HOST_PID_NAMESPACE
    except OSError:
        return False
    return is_host and not (proc / str(pid)).exists()


def command_of(pid: int, proc: Path = PROC) -> str:
    """Title or first words of the command line; the name where there is none; ``?`` when gone.

    Only the program and its first plain words: what follows may hold secrets.
    """
    try:
        content = (proc / str(pid) / "cmdline").read_bytes()
        if not content.strip(b"\0"):
            content = (proc / str(pid) / "comm").read_bytes()
    except OSError:
        return "?"
    words = content.decode("utf-8", "replace").rstrip("\0\n").split("\0")
    plain = [words[0]]
    for word in words[1:4]:
        if word.startswith("-") or "=" in word:
            break
        plain.append(word)
    return "".join(
        character if character.isprintable() else " "
        for character in " ".join(plain)[:COMMAND_CHARACTERS_MAX]
    ).strip()
