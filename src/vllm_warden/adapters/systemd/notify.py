"""Tells systemd how we are, by sd_notify(3) datagrams that never block."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from struct import pack

FIRST_FD = 3
"""SD_LISTEN_FDS_START of sd-daemon.h."""


class SystemdNotifier:
    """Satisfies ``daemon.ports.Notifier``; does nothing outside systemd."""

    def __init__(self, address: str | None = None) -> None:
        """``address`` is $NOTIFY_SOCKET; a leading @ means the abstract namespace."""
        found = address if address is not None else os.environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{found[1:]}" if found.startswith("@") else found
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
            )

    @property
    def is_active(self) -> bool:
        return self._socket is not None

    def ready(self) -> None:
        self._send("READY=1")

    def status(self, text: str) -> None:
        self._send(f"STATUS={' '.join(text.split())}")

    def watchdog(self) -> None:
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def keep(self, name: str, fd: int) -> None:
        """Into systemd's descriptor store, also when its other end hangs up (FDPOLL, 246)."""
        self._send(f"FDSTORE=1\nFDNAME={name}\nFDPOLL=0", fd)

    def forget(self, name: str) -> None:
        self._send(f"FDSTOREREMOVE=1\nFDNAME={name}")

    def kept(self) -> Mapping[str, int]:
        """sd_listen_fds_with_names(3); the variables are not for our children."""
        pid, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
        names = os.environ.pop("LISTEN_FDNAMES", "").split(":")
        if pid != str(os.getpid()) or not count.isdecimal():
            return {}
        found: dict[str, int] = {}
        for fd, name in zip(range(FIRST_FD, FIRST_FD + int(count)), names, strict=False):
            os.set_inheritable(fd, False)  # noqa: FBT003 -- its only form
            if found.setdefault(name, fd) != fd:
                os.close(fd)
        return found

    def _send(self, message: str, fd: int | None = None) -> None:
        """A full or missing socket loses the message: late news is no reason to stop."""
        if self._socket is None:
            return
        with_fd = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, pack("i", fd))]
        try:
            self._socket.sendmsg([message.encode()], with_fd, 0, self._address)
        except OSError:
            return


def watchdog_seconds() -> float | None:
    """How often systemd wants WATCHDOG=1 at the latest ($WATCHDOG_USEC); None when not at all."""
    text = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID", "")
    if not text.isdecimal() or (pid and pid != str(os.getpid())):
        return None
    return int(text) / 1e6
