"""Maps listening TCP ports to socket inodes, and processes to the sockets they hold."""

from __future__ import annotations

import re
from pathlib import Path

from vllm_warden.adapters.process.proc_files import PROC, read_bytes

LISTEN = b"0A"
"""TCP_LISTEN in /proc/net/tcp (proc(5), include/net/tcp_states.h)."""

SOCKET = re.compile(r"socket:\[(\d+)\]")


def listening_inodes(net: Path, port: int) -> set[int]:
    """Inodes of sockets that listen on the port, IPv4 and IPv6; ``net`` is a /proc/PID/net."""
    found = set()
    suffix = b":%04X" % port
    for name in ("tcp", "tcp6"):
        for line in read_bytes(net / name).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == LISTEN and fields[1].endswith(suffix):
                found.add(int(fields[9]))
    return found


def socket_inodes(pid: int, proc: Path = PROC) -> set[int]:
    """Inodes of all sockets that the process holds; empty when we may not look."""
    found: set[int] = set()
    try:
        entries = list((proc / str(pid) / "fd").iterdir())
    except OSError:
        return found
    for entry in entries:
        try:
            match = SOCKET.fullmatch(str(entry.readlink()))
        except OSError:
            continue
        if match:
            found.add(int(match[1]))
    return found
