"""Which errors of the start are refusals with an exit code of their own."""

from __future__ import annotations

from vllm_warden.adapters.journal.library import JournalUnavailable
from vllm_warden.adapters.store.lock import AlreadyRunning, StateDirectoryError
from vllm_warden.api.listener import SocketInUse, SocketProblem

USAGE = 2
REFUSED = 4


def exit_code_of(error: Exception) -> int | None:
    """4 for a live daemon in the way, 2 for what the configuration must change, None for a bug."""
    if isinstance(error, AlreadyRunning | SocketInUse):
        return REFUSED
    if isinstance(error, SocketProblem | StateDirectoryError | JournalUnavailable):
        return USAGE
    return None
