"""The API server on the Unix socket, inside the daemon's own event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import uvicorn

from vllm_warden.api.application import build_application
from vllm_warden.api.listener import open_listener
from vllm_warden.api.protocol import SocketProtocol
from vllm_warden.api.service import Service

HEADERS_MAX_BYTES = 16 * 1024
KEEP_ALIVE_SECONDS = 5
SHUTDOWN_SECONDS = 1


class SocketServer:
    """A running API server; ``stop`` ends streams, waits a second for answers, removes the path."""

    def __init__(
        self, path: str, server: uvicorn.Server, listener: socket.socket, closing: asyncio.Event
    ) -> None:
        self.path = path
        self._server = server
        self._listener = listener
        self._inode = Path(path).stat().st_ino
        self._closing = closing

    @property
    def started(self) -> bool:
        return self._server.started

    async def stop(self) -> None:
        """Close the socket and its connections; a second call does nothing."""
        if not self._server.started:
            return
        self._server.started = False
        self._closing.set()
        self._remove_path()
        await self._server.shutdown(sockets=[self._listener])

    def _remove_path(self) -> None:
        with suppress(FileNotFoundError):
            if Path(self.path).stat().st_ino == self._inode:  # not a successor's socket
                Path(self.path).unlink()


async def serve_socket(
    service: Service, path: str, group: str | None = "vllm-warden"
) -> SocketServer:
    """Listen and serve. Raises SocketInUse (a live daemon is there) or SocketProblem.

    uvicorn's ``serve`` would install signal handlers and wake up ten times a second for a date
    header; only its start-up, protocol and shutdown are used.
    """
    listener = open_listener(path, group)
    closing = asyncio.Event()
    config = uvicorn.Config(
        build_application(service, closing),
        http=SocketProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # what a client sends wrong is told to the client, not to our log
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=HEADERS_MAX_BYTES,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    return SocketServer(path, server, listener, closing)
