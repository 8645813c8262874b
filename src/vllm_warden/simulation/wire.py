"""Passes small JSON messages between the processes of the stand-in engine."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass, field

Message = dict[str, object]


@dataclass(slots=True)
class Wire:
    """One end of a socket pair; one JSON object a line. The other end closed reads as None."""

    end: socket.socket
    _buffer: bytearray = field(default_factory=bytearray)

    def fileno(self) -> int:
        return self.end.fileno()

    def send(self, **message: object) -> None:
        """A message to a dead process is lost, as in real life."""
        with contextlib.suppress(OSError):
            self.end.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> Message | None:
        """The next message; waits for it."""
        while b"\n" not in self._buffer:
            try:
                data = self.end.recv(65536)
            except OSError:
                return None
            if not data:
                return None
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer[:] = rest
        message = json.loads(line)
        return message if isinstance(message, dict) else None

    @property
    def has_more(self) -> bool:
        """A whole message has been read already: select() would not say so."""
        return b"\n" in self._buffer

    def close(self) -> None:
        self.end.close()


def number(message: Message, key: str) -> int:
    """An integer field, 0 where it is missing."""
    value = message.get(key)
    return value if isinstance(value, int) else 0


def wire_pair() -> tuple[Wire, Wire]:
    ours, theirs = socket.socketpair()
    return Wire(ours), Wire(theirs)
