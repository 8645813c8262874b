"""Who may do what over the socket: connecting is reading, changing needs a known uid."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vllm_warden.core.model import Actor

Access = Literal["read", "change"]

_UCRED = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end, as the kernel saw it when it connected."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Credentials of the connecting process (SO_PEERCRED, unix(7)); they cannot be forged."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return Peer(*_UCRED.unpack(raw))


def may_change(peer: Peer, admins: frozenset[int]) -> bool:
    """Root, the daemon's own user, and the uids that the operator listed."""
    return peer.uid in (0, os.geteuid()) or peer.uid in admins


def refusal(peer: Peer) -> tuple[str, str]:
    """Reason and hint for a peer that may read but not change."""
    reason = f"uid {peer.uid} may look but not change anything"
    hint = (
        f"run the command as root, or put {peer.uid} into admins under [api] in the "
        "configuration file and restart the daemon"
    )
    return reason, hint


def actor_of(peer: Peer) -> Actor:
    """The actor to record. Only the program's name is kept: arguments may hold secrets."""
    try:
        command = Path(f"/proc/{peer.pid}/comm").read_text(errors="replace").strip()
    except OSError:
        command = "?"  # it may have gone already, or live in another pid namespace
    return Actor(uid=peer.uid, pid=peer.pid, command=command or "?")
