"""What the exit status of ``vllm-warden`` means; scripts rely on these numbers."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    OK = 0
    NO = 1
    """The answer is no: the instance did not become ready, no failure was found."""
    USAGE = 2
    """Wrong arguments or configuration, an unknown name and an output that is full included."""
    UNREACHABLE = 3
    REFUSED = 4
    BUG = 70
    """EX_SOFTWARE of sysexits(3)."""
    INTERRUPTED = 130
    """Ctrl-C ended the waiting, 128 + SIGINT as shells count; nothing was undone."""
    PIPE_CLOSED = 141
    """Whoever read the output has gone, 128 + SIGPIPE as shells count; nothing is complained."""


def of_http_status(status: int) -> ExitCode:
    """The exit code for an error answer of the API."""
    if status in (401, 403, 409, 423):
        return ExitCode.REFUSED
    if status == 503:
        return ExitCode.UNREACHABLE
    return ExitCode.USAGE if status < 500 else ExitCode.BUG
