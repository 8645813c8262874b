"""Server-sent events with a bounded queue: a reader that is too slow loses some and is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import AsyncIterator

from vllm_warden.api.service import Document

_log = logging.getLogger(__name__)

CAPACITY = 256
PATIENCE_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 15.0


class Backlog:
    """Documents between the daemon and one reader: at most ``capacity``, then dropped, counted."""

    def __init__(self, capacity: int = CAPACITY, patience_seconds: float | None = None) -> None:
        self._items: deque[Document] = deque()
        self._capacity = capacity
        self._patience_seconds = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        self._dropped = 0
        self._stalled = False
        self._ended = False
        self._changed = asyncio.Condition()

    async def put(self, document: Document) -> None:
        """Wait a moment for room, and only once per stall, so that the source keeps flowing."""
        async with self._changed:
            if self._is_full() and not self._stalled:
                try:
                    async with asyncio.timeout(self._patience_seconds):
                        await self._changed.wait_for(lambda: not self._is_full())
                except TimeoutError:
                    self._stalled = True
            if self._is_full():
                self._dropped += 1
                return
            if self._dropped:
                self._items.append(self._drop_notice())
            self._items.append(document)
            self._changed.notify_all()

    async def end(self) -> None:
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def take(self) -> Document | None:
        """The next document, or None when the source has ended."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._items or self._dropped or self._ended)
            self._stalled = False
            if self._items:
                document = self._items.popleft()
                self._changed.notify_all()
                return document
            return self._drop_notice() if self._dropped else None

    def _is_full(self) -> bool:
        return len(self._items) >= self._capacity

    def _drop_notice(self) -> Document:
        dropped, self._dropped = self._dropped, 0
        return {"dropped": dropped}


async def server_sent_events(
    source: AsyncIterator[Document],
    closing: asyncio.Event,
    backlog: Backlog | None = None,
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
) -> AsyncIterator[bytes]:
    """The source as an event stream, until it ends, the reader leaves or the server closes."""
    queue = backlog or Backlog()
    pump = asyncio.create_task(_pump(source, queue))
    closed = asyncio.create_task(closing.wait())
    taking: asyncio.Task[Document | None] | None = None
    try:
        yield b": connected\n\n"
        while not closing.is_set():
            taking = taking or asyncio.create_task(queue.take())
            await asyncio.wait(
                {taking, closed},
                timeout=keep_alive_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not taking.done():
                yield b": keep-alive\n\n"
                continue
            document, taking = taking.result(), None
            if document is None:
                return
            yield encode(document)
    finally:
        for task in (pump, closed, taking):
            if task is not None:
                task.cancel()
        await asyncio.gather(pump, return_exceptions=True)
        close = getattr(source, "aclose", None)
        if close is not None:
            with contextlib.suppress(RuntimeError):
                await close()


def encode(document: Document) -> bytes:
    """One message; ``id`` lets a browser or curl user resume with Last-Event-ID."""
    head = ""
    if "dropped" in document:
        head = "event: dropped\n"
    elif isinstance(document.get("number"), int):
        head = f"id: {document['number']}\n"
    return f"{head}data: {json.dumps(document)}\n\n".encode()


async def _pump(source: AsyncIterator[Document], backlog: Backlog) -> None:
    try:
        async for document in source:
            await backlog.put(document)
    except Exception:  # noqa: BLE001 - one stream ends, the daemon goes on
        _log.exception("cannot continue an event stream: its source failed")
    finally:
        await backlog.end()
