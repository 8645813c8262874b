"""One connection of the Unix socket: peer credentials, and limits that keep others served."""

from __future__ import annotations

import asyncio
import itertools

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from vllm_warden.api.access import Peer, peer_of
from vllm_warden.api.problems import MEDIA_TYPE, problem_body

REQUEST_SECONDS = 10.0
"""A request must have arrived whole within this time; uvicorn itself waits for ever."""

CONNECTIONS_PER_USER = 64
"""More than any person needs; beyond it a user loses the oldest idle connection."""

_order = itertools.count()


class SocketProtocol(H11Protocol):
    """HTTP/1.1 by h11, with ``scope["state"]["peer"]`` filled from the kernel.

    uvicorn counts idle connections towards its concurrency limit, so one user with many of them
    could lock out all others; the limit here is per uid instead and evicts idle ones first.
    """

    peer: Peer
    request_seconds = REQUEST_SECONDS
    connections_per_user = CONNECTIONS_PER_USER

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.opened = next(_order)
        self.peer = peer_of(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, "peer": self.peer}
        self._deadline: asyncio.TimerHandle | None = None
        self._expect_request()
        if not self._room_made():
            self._answer_and_close(
                503,
                f"uid {self.peer.uid} has {self.connections_per_user} requests open already",
                "close some event or log streams",
            )

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_request()

    def send_400_response(self, msg: str) -> None:
        self._answer_and_close(400, msg.lower().rstrip("."), "send an HTTP/1.1 request")

    @property
    def is_answering(self) -> bool:
        """A whole request is here and its answer is not finished."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and not cycle.response_complete

    def _expect_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(self.request_seconds, self._close_unless_answering)

    def _close_unless_answering(self) -> None:
        if not self.is_answering:
            self.transport.abort()

    def _room_made(self) -> bool:
        mine = [
            other
            for other in self.connections
            if isinstance(other, SocketProtocol)
            and other is not self
            and other.peer.uid == self.peer.uid
        ]
        if len(mine) < self.connections_per_user:
            return True
        idle = [other for other in mine if not other.is_answering]
        if not idle:
            return False
        oldest = min(idle, key=lambda other: other.opened)
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True

    def _answer_and_close(self, status: int, detail: str, hint: str) -> None:
        body = problem_body(status, detail, hint)
        headers = [
            ("content-type", MEDIA_TYPE),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        try:
            head = self.conn.send(h11.Response(status_code=status, headers=headers))
            self.transport.write(head + self.conn.send(h11.Data(data=body)))
        except h11.LocalProtocolError:
            pass  # garbage behind a request that is being answered: nothing more can be said
        self.transport.close()
