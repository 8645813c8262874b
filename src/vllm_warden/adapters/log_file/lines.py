"""Cuts a byte stream into lines by the rules that journald has for its streams."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.long_line import LINE_BYTES_KEPT, shortened

LINE_END = re.compile(rb"[\n\0]")


class LineCutter:
    """Feed bytes, get whole lines: empty ones dropped, trailing blanks stripped.

    Of a longer line only the first 16 KiB are kept, however much of it comes: memory is bounded,
    and its rest can never pass for a line of its own.
    """

    def __init__(self) -> None:
        self._begun = b""
        self._dropped_bytes = 0
        self._in_gap = False

    def feed(self, content: bytes) -> list[str]:
        first, *others = LINE_END.split(content)
        self._grow(first)
        if not others:
            return []
        *whole, last = others
        lines = [self._take(), *(shortened(line) for line in whole)]
        self._grow(last)
        return [line for line in lines if line]

    def gap(self) -> list[str]:
        """Bytes are missing here: the line begun so far, and nothing more up to the next line end.

        What follows a gap may be the middle of a line, which must not be read as its begin.
        """
        lines = self.flush()
        self._in_gap = True
        return lines

    def flush(self) -> list[str]:
        """The last line when it has no end."""
        text = self._take()
        return [text] if text else []

    def _grow(self, piece: bytes) -> None:
        if self._in_gap:
            return
        room = LINE_BYTES_KEPT - len(self._begun)
        self._begun += piece[:room]
        self._dropped_bytes += max(0, len(piece) - room)

    def _take(self) -> str:
        text = shortened(self._begun, self._dropped_bytes)
        self._begun, self._dropped_bytes, self._in_gap = b"", 0, False
        return text
