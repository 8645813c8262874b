"""Answers with many log lines in pieces, so that neither the loop nor memory feels their number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vllm_warden.api.service import Document

PIECE_BYTES = 64 * 1024
"""As much as asyncio's transport buffers for a reader before it makes the writer wait."""
PATIENCE_SECONDS = 30.0
"""A reader that takes nothing for so long is left, and what was kept for it is freed."""


class LineAnswer(Response):
    """``{"lines": [...], "left_out": N}`` as JSON."""

    media_type = "application/json"

    def __init__(self, lines: Sequence[Document], left_out: int) -> None:
        self.background = None
        self.status_code = 200
        self.init_headers()  # without a body: its length is not known before it is written
        self._pieces = pieces(lines, left_out)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            for piece in self._pieces:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)
        except TimeoutError:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def pieces(lines: Sequence[Document], left_out: int) -> Iterator[bytes]:
    """The document in pieces of about 64 KiB."""
    piece = bytearray(b'{"lines": [')
    separator = b""
    for line in lines:
        piece += separator + json.dumps(line).encode()
        separator = b", "
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + b'], "left_out": %d}' % left_out


def left_out(lines: Sequence[Document], last: int) -> int:
    """How many of the last lines are missing: lines of an attempt are numbered from 1."""
    newest = lines[-1]["line"] if lines else 0
    return max(0, min(last, newest) - len(lines)) if isinstance(newest, int) else 0
