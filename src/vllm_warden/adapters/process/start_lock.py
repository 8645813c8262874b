"""Lets one start at a time use a GPU, host-wide: a name that only one process can have.

The names are those of abstract Unix sockets (unix(7)): nobody has to own a directory, and whoever
dies lets go. All wardens of a network namespace see them: the service, ``serve``, other daemons.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Sequence

from vllm_warden.adapters.process.proc_files import PROC, read_bytes

PREFIX = "\0vllm-warden-start-"
LIMIT_SECONDS = 0.2


class StartTaken(Exception):  # noqa: N818
    """Another warden is starting an engine on one of the GPUs; the message says who."""


class StartLock:
    """Held until released, or until this process ends; satisfies ``daemon.ports.StartLock``."""

    def __init__(self, uuids: Sequence[str]) -> None:
        """All or none. Raises StartTaken."""
        with contextlib.ExitStack() as taken:
            for uuid in sorted(uuids):
                taken.enter_context(_bound(uuid))
            self._held = taken.pop_all()

    def release(self) -> None:
        self._held.close()


def _bound(uuid: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.bind(PREFIX + uuid)
        made.listen(socket.SOMAXCONN)  # who is refused asks who has it; nobody is ever accepted
    except OSError as error:
        made.close()
        if error.errno == errno.EADDRINUSE:
            raise StartTaken(f"{_holder(uuid)} on {uuid}") from None
        raise
    return made


def _holder(uuid: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
        asking.settimeout(LIMIT_SECONDS)
        try:
            asking.connect(PREFIX + uuid)
            content = asking.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
            )
        except OSError:
            return "another process"
    pid, uid, _ = struct.unpack("3i", content)
    command = read_bytes(PROC / str(pid) / "comm").decode("utf-8", "replace").strip() or "?"
    return f"pid {pid} (uid {uid}, {command})"
