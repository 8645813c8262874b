"""Cuts a byte stream into lines by the rules that journald has for its streams."""

from __future__ import annotations

import re

LINE_BYTES_MAX = 48 * 1024
"""journald's default LineMax (journald.conf(5)); the file backend cuts at the same place."""

LINE_END = re.compile(rb"[\n\0]")


class LineCutter:
    """Feed bytes, get whole lines: empty ones dropped, trailing blanks stripped."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, content: bytes) -> list[str]:
        *whole, self._rest = LINE_END.split(self._rest + content)
        pieces: list[bytes] = []
        for line in whole:
            pieces.extend(_cut(line))
        while len(self._rest) >= LINE_BYTES_MAX:
            pieces.append(self._rest[:LINE_BYTES_MAX])
            self._rest = self._rest[LINE_BYTES_MAX:]
        return [text for piece in pieces if (text := _decode(piece))]

    def flush(self) -> list[str]:
        """The last line when it has no end."""
        rest, self._rest = self._rest, b""
        text = _decode(rest)
        return [text] if text else []


def _cut(line: bytes) -> list[bytes]:
    return [line[at : at + LINE_BYTES_MAX] for at in range(0, len(line), LINE_BYTES_MAX)]


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip()
