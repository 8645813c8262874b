"""Finds the daemon's socket where nobody named one: the service's, else that of a ``serve``."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import click

from vllm_warden.api.client import DEFAULT_SOCKET

ANSWER_SECONDS = 1.0


def state_home() -> Path:
    """Where a user's programs keep state (XDG base directory specification).

    Raises click.UsageError for a user without a home, as a container's number can be.
    """
    try:
        return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    except RuntimeError:
        raise click.UsageError(
            "cannot tell where to keep state: this user has no home directory; "
            "set --state-directory or XDG_STATE_HOME"
        ) from None


def find_socket() -> str:
    """The service's socket, or the only live one of this user's ``serve``.

    Raises click.UsageError where several live, with the line to type for each.
    """
    if Path(DEFAULT_SOCKET).exists():
        return DEFAULT_SOCKET
    try:
        found = live_sockets(state_home() / "vllm-warden")
    except click.UsageError:
        found = []
    if len(found) > 1:
        lines = "\n".join(f"  {choice(path)}" for path in found)
        raise click.UsageError(f"which daemon? several run; choose one:\n{lines}")
    return str(found[0]) if found else DEFAULT_SOCKET


def choice(path: Path) -> str:
    """The begin of the line to type for one of several sockets."""
    context = click.get_current_context(silent=True)
    command = context.info_name if context is not None else None
    return f"vllm-warden --socket {path} {command or 'status'}"


def live_sockets(directory: Path) -> list[Path]:
    """Sockets of ``serve`` below the directory on which something answers, by name."""
    try:
        paths = sorted(directory.glob("*/api.sock"))
        return [path for path in paths if _is_live(path)]
    except OSError:  # not readable for this user
        return []


def _is_live(path: Path) -> bool:
    try:
        if not stat.S_ISSOCK(path.stat().st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(ANSWER_SECONDS)
            probe.connect(str(path))
    except OSError:
        return False
    return True
