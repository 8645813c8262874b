"""Tells systemd how we are, by sd_notify(3) datagrams that never block."""

from __future__ import annotations

import os
import socket


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

    def _send(self, message: str) -> None:
        """A full or missing socket loses the message: late news is no reason to stop."""
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode(), self._address)
        except OSError:
            return


def watchdog_seconds() -> float | None:
    """How often systemd wants WATCHDOG=1 at the latest ($WATCHDOG_USEC); None when not at all."""
    text = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID", "")
    if not text.isdecimal() or (pid and pid != str(os.getpid())):
        return None
    return int(text) / 1e6
