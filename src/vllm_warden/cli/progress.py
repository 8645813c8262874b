"""Shows on a terminal how far a long log has been read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Protocol

WORTH_BYTES = 32 << 20
"""Shorter logs are read before a bar could be looked at."""


class CountedLog(Protocol):
    """A log that says how many of its bytes were read."""

    @property
    def total_bytes(self) -> int | None: ...
    @property
    def read_bytes(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...


def shown_progress(name: str, log: CountedLog) -> Iterable[bytes]:
    """The log's chunks; a bar on standard error while they come, where that is a terminal."""
    total = log.total_bytes
    if not sys.stderr.isatty() or (total is not None and total < WORTH_BYTES):
        return log
    return _with_bar(name, log)


def _with_bar(name: str, log: CountedLog) -> Iterator[bytes]:
    from rich.console import Console  # noqa: PLC0415 - tens of milliseconds, rarely needed
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(name[-30:]), total=log.total_bytes)
        for chunk in log:
            yield chunk
            progress.update(task, completed=log.read_bytes)
