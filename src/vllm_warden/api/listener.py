"""The listening Unix socket: taken over when stale, refused when a daemon lives on it."""

from __future__ import annotations

import grp
import os
import socket
import stat
from pathlib import Path

from vllm_warden.api.access import peer_of

PATH_MAX_BYTES = 107
"""sockaddr_un.sun_path holds 108 bytes with the final NUL (unix(7))."""


class SocketProblem(Exception):  # noqa: N818 - a problem of the operator's, not of the program
    """The socket cannot be had; the message says why and what to do."""


class SocketInUse(SocketProblem):
    """A live process listens on the path; ``pid`` is None where the kernel will not say."""

    def __init__(self, path: str, pid: int | None) -> None:
        who = f"process {pid}" if pid else "another process"
        super().__init__(
            f"cannot listen on {path}: {who} listens there already; stop it, or give this daemon "
            "a socket and a state directory of its own"
        )
        self.pid = pid


def open_listener(path: str, group: str | None) -> socket.socket:
    """Bind and listen with mode 0660 and the group, where it exists. Raises SocketProblem."""
    if len(os.fsencode(path)) > PATH_MAX_BYTES:
        raise SocketProblem(
            f"cannot listen on {path}: the path has more than {PATH_MAX_BYTES} bytes; use a "
            "shorter one"
        )
    try:
        _make_directory(Path(path).parent)
        _clear_stale(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listener.bind(path)
            _restrict(path, group)  # before listen(): until then nobody can connect
            listener.listen(128)
            listener.settimeout(0)  # asyncio wants it non-blocking
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise SocketProblem(
            f"cannot listen on {path}: {error.strerror or error}; the user {os.geteuid()} needs "
            "to be able to write there, or choose another socket path"
        ) from error
    return listener


def _make_directory(directory: Path) -> None:
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)


def _clear_stale(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketProblem(
            f"cannot listen on {path}: a file that is no socket is there; remove it or choose "
            "another socket path"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
        except (TimeoutError, BlockingIOError):
            raise SocketInUse(path, None) from None  # alive, but its backlog is full
        else:
            raise SocketInUse(path, peer_of(probe).pid or None)


def _restrict(path: str, group: str | None) -> None:
    Path(path).chmod(0o660)
    if group is None:
        return
    try:
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
    except (KeyError, PermissionError):
        return  # no such group, or we are not in it: the owner alone may connect
