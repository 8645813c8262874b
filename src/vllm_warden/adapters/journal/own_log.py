"""Sends the daemon's own log lines to journald, without ever waiting for it."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

SOCKET_PATH = "/run/systemd/journal/socket"
FIELD_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
VALUE_BYTES_MAX = 64 * 1024


class JournalDatagram:
    """Native journal protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL) over one datagram socket.

    ``dropped`` counts entries that journald could not take: socket full, or not there.
    """

    def __init__(self, path: str = SOCKET_PATH) -> None:
        self.dropped = 0
        self._path = path
        self._socket = socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        )

    def send(self, fields: Mapping[str, str]) -> bool:
        """True when journald has it.

        Names are upper-cased, and left out where journald would refuse them. Values longer than
        64 KiB are cut, so that an entry stays one datagram.
        """
        content = b"".join(_field(name.upper(), value) for name, value in fields.items())
        try:
            self._socket.sendto(content, self._path)
        except OSError:
            self.dropped += 1
            return False
        return True

    def close(self) -> None:
        self._socket.close()


def _field(name: str, value: str) -> bytes:
    if not FIELD_NAME.fullmatch(name):
        return b""
    content = value.encode("utf-8", "replace")[:VALUE_BYTES_MAX]
    if b"\n" not in content:
        return name.encode() + b"=" + content + b"\n"
    return name.encode() + b"\n" + len(content).to_bytes(8, "little") + content + b"\n"
