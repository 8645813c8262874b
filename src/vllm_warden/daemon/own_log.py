"""The daemon's own log lines: to journald without waiting for it, or to stderr by hand."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol

import structlog

PRIORITIES = {"critical": "2", "error": "3", "warning": "4", "info": "6", "debug": "7"}
"""syslog(3) levels, which journald's PRIORITY field takes."""


class Datagrams(Protocol):
    def send(self, fields: Mapping[str, str]) -> bool: ...


def log_to_journal(datagrams: Datagrams) -> None:
    """Every event one journal entry with its values as fields."""

    def emit(_logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
        text = str(event.pop("event", ""))
        shown = event.get("text")
        level = "error" if method == "exception" else method
        fields = {
            "MESSAGE": f"{text}: {shown}" if shown else text,
            "PRIORITY": PRIORITIES.get(level, "6"),
            "SYSLOG_IDENTIFIER": "vllm-wardend",
            "WARDEN_EVENT": text,
        }
        fields.update({f"WARDEN_{name}": str(value) for name, value in event.items()})
        datagrams.send(fields)
        raise structlog.DropEvent

    structlog.configure(
        processors=[structlog.processors.format_exc_info, emit],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=True,
    )


def log_to_stderr(*, quiet: bool = False) -> None:
    """Readable lines for a person; coloured only on a terminal."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty() and "NO_COLOR" not in os.environ,
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.WARNING if quiet else logging.INFO
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def is_journal_stream() -> bool:
    """True when systemd connected our stderr to the journal ($JOURNAL_STREAM, systemd.exec(5))."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    if not device.isdecimal() or not inode.isdecimal():
        return False
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (int(device), int(inode))
