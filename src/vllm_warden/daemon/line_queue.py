"""Holds log lines for one reader that follows them; a slow one loses the oldest and is told."""

from __future__ import annotations

import asyncio
from collections import deque

from vllm_warden.api.service import Document

LINES_MAX = 4000
CHARACTERS_MAX = 4 << 20


class LineQueue:
    """Filled and emptied in the event loop."""

    def __init__(self, lines_max: int = LINES_MAX, characters_max: int = CHARACTERS_MAX) -> None:
        self._lines: deque[Document] = deque()
        self._lines_max = lines_max
        self._characters_max = characters_max
        self._characters = 0
        self._dropped = 0
        self._filled = asyncio.Event()

    def put(self, line: Document) -> None:
        self._lines.append(line)
        self._characters += _characters(line)
        while len(self._lines) > self._lines_max or self._characters > self._characters_max:
            self._characters -= _characters(self._lines.popleft())
            self._dropped += 1
        self._filled.set()

    async def take(self) -> Document:
        """The next line, or ``{"dropped": N}`` once where lines are missing."""
        await self._filled.wait()
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._settle()
            return {"dropped": dropped}
        line = self._lines.popleft()
        self._characters -= _characters(line)
        self._settle()
        return line

    def _settle(self) -> None:
        if not self._lines and not self._dropped:
            self._filled.clear()


def _characters(line: Document) -> int:
    return len(str(line["text"]))
