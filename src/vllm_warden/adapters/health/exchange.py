"""One HTTP exchange with an engine on this host, and nothing kept open.

The wire is h11's, which uvicorn has loaded anyway: an HTTP client library costs the daemon at
rest 14 MiB and 4 ms of CPU for each question, this 1 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import h11

ANSWER_BYTES_MAX = 2 << 20
"""On the wire. vLLM's /metrics is the longest answer, some 100 KiB for each engine."""
READ_BYTES = 16 << 10
"""What is taken apart at once: cut into chunks of one byte each it takes some 40 ms."""


class NoAnswer(Exception):  # noqa: N818 -- reads as what it is
    """Refused, cut short, or not HTTP; the text says which."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body; ``text`` never fails to decode."""

    status: int
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


async def exchange(
    host: str,
    port: int,
    target: str,
    timeout_seconds: float,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    """GET, or POST where there is a body. Raises TimeoutError for the whole of it, and NoAnswer."""
    wire = h11.Connection(h11.CLIENT)
    try:
        request = _request(wire, _authority(host, port), target, headers or {}, body)
        async with asyncio.timeout(timeout_seconds):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(request)
                return await _answer(wire, reader)
            finally:
                writer.close()
    except TimeoutError:
        raise
    except h11.LocalProtocolError:
        # h11's own words would repeat the header, and with it the API key
        raise NoAnswer("a header cannot be sent") from None
    except (OSError, ValueError, h11.RemoteProtocolError) as error:
        raise NoAnswer(type(error).__name__) from error


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _request(
    wire: h11.Connection,
    authority: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes | None,
) -> bytes:
    """The bytes to send. Raises LocalProtocolError where a header would hold a line break."""
    fields = {"Host": authority, "Accept": "*/*", "Connection": "close", **headers}
    if body is not None:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    method = "GET" if body is None else "POST"
    head = h11.Request(method=method, target=target, headers=list(fields.items()))
    parts = [wire.send(head)]
    if body is not None:
        parts.append(wire.send(h11.Data(data=body)))
    parts.append(wire.send(h11.EndOfMessage()))
    return b"".join(part for part in parts if part)


async def _answer(wire: h11.Connection, reader: asyncio.StreamReader) -> Answer:
    """Raises RemoteProtocolError for what is not HTTP or ends too early, ValueError if too long."""
    status, body, taken = 0, bytearray(), 0
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            content = await reader.read(READ_BYTES)
            taken += len(content)
            if taken > ANSWER_BYTES_MAX:
                raise ValueError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
            wire.receive_data(content)
            await asyncio.sleep(0)  # a full buffer is read without waiting, so nothing else ran
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, bytes(body))
        elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("closed before the answer was complete")
