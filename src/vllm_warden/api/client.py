"""A small client of the socket API: enough HTTP/1.0 over AF_UNIX, imported in milliseconds.

``http.client`` pulls in the email package (about 30 ms here) and httpx far more (200 ms); with
HTTP/1.0 every body ends where the connection ends, so there is little left to get wrong.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

DEFAULT_SOCKET = "/run/vllm-warden/api.sock"
PATH_MAX_BYTES = 107
"""sockaddr_un.sun_path holds 108 bytes with the final NUL (unix(7))."""
STARTS = "vllm-wardend --config FILE, or vllm-warden serve MODEL ..."
TIMEOUT_SECONDS = 10.0
ANSWER_MAX_BYTES = 64 * 1024 * 1024

Json = dict[str, object]


class DaemonUnreachable(Exception):  # noqa: N818 - reads as what it is
    """No daemon answers on the socket; the message says why and what to do."""


class ApiError(Exception):
    """The daemon answered with problem details (RFC 9457)."""

    def __init__(self, problem: Json) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or "refused"))
        self.problem = problem
        status = problem.get("status")
        self.status = status if isinstance(status, int) else 500
        self.hint = str(problem.get("hint") or "")


class Client:
    """Talks to one daemon; a new connection for every call."""

    def __init__(
        self, socket_path: str = DEFAULT_SOCKET, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self.socket_path = socket_path
        self._timeout_seconds = timeout_seconds

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Json:
        """The JSON object at a path. Raises DaemonUnreachable, ApiError."""
        return self._exchange("GET", _target(path, query), b"")

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Json:
        return self._exchange("POST", path, json.dumps(body).encode() if body else b"")

    def stream(
        self, path: str, query: Mapping[str, object] | None = None, poll_seconds: float = 30.0
    ) -> Iterator[Json | None]:
        """Documents as they come; None after each ``poll_seconds`` in which none came.

        Ends when the daemon closes the stream (it stops or restarts).
        """
        with self._connect() as connection:
            self._send(connection, "GET", _target(path, query), b"", "text/event-stream")
            reader = _Reader(connection, self.socket_path)
            status = reader.head()
            if status >= 400:
                raise ApiError(_json_object(reader.rest(), status))
            connection.settimeout(poll_seconds)
            yield from _documents(reader)

    def _exchange(self, method: str, target: str, body: bytes) -> Json:
        with self._connect() as connection:
            self._send(connection, method, target, body, "application/json")
            reader = _Reader(connection, self.socket_path)
            status = reader.head()
            answer = _json_object(reader.rest(), status)
        if status >= 400:
            raise ApiError(answer)
        return answer

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._timeout_seconds)
        try:
            connection.connect(self.socket_path)
        except OSError as error:
            connection.close()
            raise DaemonUnreachable(_why_unreachable(self.socket_path, error)) from error
        return connection

    def _send(
        self, connection: socket.socket, method: str, target: str, body: bytes, accept: str
    ) -> None:
        head = (
            f"{method} {target} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            connection.sendall(head.encode("ascii") + body)
        except OSError as error:
            raise DaemonUnreachable(_why_unreachable(self.socket_path, error)) from error


class _Reader:
    """Splits what arrives on a connection; a time-out loses nothing."""

    def __init__(self, connection: socket.socket, socket_path: str) -> None:
        self._connection = connection
        self._socket_path = socket_path
        self._buffer = bytearray()
        self._length: int | None = None

    def head(self) -> int:
        """The status; headers are read for their Content-Length."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not self._more():
                raise self._broken("the connection was closed without an answer")
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        words = lines[0].split()
        if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdecimal():
            raise self._broken("what answers there does not speak HTTP")
        for line in lines[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "content-length" and value.strip().isdecimal():
                self._length = int(value)
        return int(words[1])

    def rest(self) -> bytes:
        while self._length is None or len(self._buffer) < self._length:
            if len(self._buffer) > ANSWER_MAX_BYTES:
                raise self._broken(f"the answer is larger than {ANSWER_MAX_BYTES} bytes")
            if not self._more():
                break
        if self._length is not None and len(self._buffer) < self._length:
            raise self._broken("the answer was cut short")
        return bytes(self._buffer)

    def line(self) -> bytes | None:
        """The next line without its end, None at the end. Raises TimeoutError."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > ANSWER_MAX_BYTES:
                raise self._broken(f"a line is larger than {ANSWER_MAX_BYTES} bytes")
            if not self._more(patient=True):
                return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line.removesuffix(b"\r")

    def _more(self, *, patient: bool = False) -> bool:
        try:
            data = self._connection.recv(65536)
        except TimeoutError:
            if patient:
                raise
            raise self._broken("no answer in time; the daemon may be stuck") from None
        except ConnectionResetError:
            data = b""
        self._buffer += data
        return bool(data)

    def _broken(self, reason: str) -> DaemonUnreachable:
        return DaemonUnreachable(f"cannot talk to the daemon on {self._socket_path}: {reason}")


def _documents(reader: _Reader) -> Iterator[Json | None]:
    """Parse server-sent events; every message of ours is one ``data`` line."""
    while True:
        try:
            line = reader.line()
        except TimeoutError:
            yield None
            continue
        if line is None:
            return
        if line.startswith(b"data:"):
            yield _json_object(line[5:], 200)


def _json_object(body: bytes, status: int) -> Json:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if isinstance(document, dict):
        return document
    return {"status": status if status >= 400 else 500, "detail": "the answer is not JSON"}


def _target(path: str, query: Mapping[str, object] | None) -> str:
    words = [f"{quote(name)}={quote(str(value))}" for name, value in (query or {}).items()]
    return path + ("?" + "&".join(words) if words else "")


def _why_unreachable(path: str, error: OSError) -> str:
    """One sentence on why nothing answers, one on what to do."""
    start = f"cannot reach the daemon on {path}:"
    if len(os.fsencode(path)) > PATH_MAX_BYTES:
        return f"{start} the path has more than {PATH_MAX_BYTES} bytes; no socket can be there"
    if error.errno == errno.EACCES:
        return f"{start} permission denied; {_who_may_connect(path)}"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return (
            f"{start} no such socket; start a daemon ({STARTS}), or name the right socket with "
            "--socket PATH or WARDEN_SOCKET; a daemon that runs although its socket was deleted "
            "makes a new one when it is restarted"
        )
    if not _is_socket(path):
        return f"{start} that is no socket; name the daemon's with --socket PATH or WARDEN_SOCKET"
    if error.errno == errno.ECONNREFUSED:
        return f"{start} it is not running; start it ({STARTS})"
    return f"{start} {error.strerror or error}; its own log says more"


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(Path(path).stat().st_mode)
    except OSError:
        return True  # not known to be anything else


def _who_may_connect(path: str) -> str:
    try:
        gid = Path(path).stat().st_gid
    except OSError:
        return "you cannot look into its directory; try as root"
    try:
        import grp  # noqa: PLC0415 - only needed for this message

        group = grp.getgrgid(gid).gr_name
    except KeyError:
        group = str(gid)
    if gid == 0:
        return "only root may connect: create the group vllm-warden and restart the daemon"
    return f"members of the group {group} may connect (usermod -aG {group} YOU), and root"
