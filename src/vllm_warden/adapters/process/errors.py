"""The error of starting a process."""

from __future__ import annotations


class SpawnError(Exception):
    """An engine could not be started.

    ``hopeless`` True: no relaunch helps until a person changes something (program, user,
    permission); False: it may work later (no memory, too many processes).
    """

    def __init__(self, reason: str, *, hopeless: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hopeless = hopeless
