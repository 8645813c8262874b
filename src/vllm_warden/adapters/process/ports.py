"""Finds out before a launch whether a TCP port can be bound, and who has it otherwise."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

from vllm_warden.adapters.process.proc_files import PROC, all_pids, command_words
from vllm_warden.adapters.process.sockets import listening_inodes, socket_inodes
from vllm_warden.core.secrets import mask_words


def port_holder(host: str, port: int, proc: Path = PROC) -> str | None:
    """None when the port is free, otherwise who has it or why it cannot be bound.

    Binds and closes at once, with SO_REUSEADDR as uvicorn does, so that connections of the last
    attempt in TIME_WAIT do not count.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return _describe(port, proc)
            return f"{host} port {port} cannot be bound: {os.strerror(error.errno or 0)}"
    return None


def _describe(port: int, proc: Path) -> str:
    inodes = listening_inodes(proc / "self" / "net", port)
    if inodes:
        for pid in sorted(all_pids(proc)):
            if inodes & socket_inodes(pid, proc):
                command = " ".join(mask_words(command_words(pid, proc)))[:120].strip() or "?"
                return f"pid {pid} ({command})"
    return "a process that we may not look at"
