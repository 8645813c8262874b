"""Waits until a host has come to rest, for as long as something still moves."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from vllm_warden.api.client import ApiError, DaemonUnreachable

QUIET_SECONDS = 60.0
"""So long nothing at all has changed: the longest that a daemon waits for by itself is the retry
of a launch or of the history, 30 s."""
ATTEMPTS_MAX = 12
"""An instance that has needed more since the last fault goes round in a circle."""
LONGEST_SECONDS = 900.0
LOOK_SECONDS = 0.1


class Host(Protocol):
    def status(self) -> dict[str, dict[str, Any]]:
        """The daemon's entry of each instance."""


Look = Callable[[], list[str]]


def wrong_at_rest(host: Host, looks: tuple[Look, ...], quiet: float = QUIET_SECONDS) -> list[str]:
    """Nothing as soon as no look finds anything; else what is wrong when nothing moves any more.

    How long that takes is the machine's business; a look is only taken when those before it found
    nothing.
    """
    began = moved = time.monotonic()
    attempts: dict[str, int] = {}
    last: object = None
    while wrong := next((found for look in looks if (found := _looked(look))), []):
        # a complaint that comes again and again with another time or number is no progress
        now, view = time.monotonic(), (_view(host), [re.sub(r"\d", "", one) for one in wrong])
        if view != last:
            last, moved = view, now
        for name, number in _attempts(host).items():
            if number - attempts.setdefault(name, number) > ATTEMPTS_MAX:
                return [*wrong, f"{name} needed more than {ATTEMPTS_MAX} attempts to come to rest"]
        if now - moved > quiet or now - began > LONGEST_SECONDS:
            return [
                *wrong,
                f"waited {now - began:.0f} s, the last {now - moved:.0f} without change",
            ]
        time.sleep(LOOK_SECONDS)
    return []


def _looked(look: Look) -> list[str]:
    try:
        return look()
    except (DaemonUnreachable, ApiError) as error:
        return [f"the daemon cannot be asked: {error}"]


def _attempts(host: Host) -> dict[str, int]:
    with contextlib.suppress(DaemonUnreachable, ApiError):
        return {name: int(one["attempt"]) for name, one in host.status().items()}
    return {}


def _view(host: Host) -> object:
    with contextlib.suppress(DaemonUnreachable, ApiError):
        keys = ("state", "attempt", "phase", "reason")
        return {name: [one[key] for key in keys] for name, one in host.status().items()}
    return None
