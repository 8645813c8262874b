"""Hands log lines from their reading thread to the event loop, no faster than the loop takes them.

Without that an engine that floods its log would fill the loop's queue without end, and nobody
could ask or stop the daemon any more.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from vllm_warden.core.diagnose.evidence import LogRecord

LINES_AT_ONCE = 256
BYTES_AT_ONCE = 128 << 10
"""What the loop takes in one go, in some ten milliseconds, before it looks at anything else."""
PARTS_AHEAD = 8
"""Handed over and not taken yet: a death of eight ranks is read while the loop takes its begin."""
WAIT_SECONDS = 5.0
"""A loop that has ended takes nothing any more; the reading thread must end nevertheless."""

Take = Callable[[Sequence[LogRecord]], None]


def paced(loop: asyncio.AbstractEventLoop, take: Take) -> Take:
    """What the reading thread calls with new lines: returns once the loop has little left to take.

    Raises RuntimeError when the loop is closed.
    """
    not_taken: deque[threading.Event] = deque()

    def deliver(records: Sequence[LogRecord]) -> None:
        for part in _parts(records):
            while len(not_taken) >= PARTS_AHEAD:
                not_taken.popleft().wait(WAIT_SECONDS)
            taken = threading.Event()
            not_taken.append(taken)
            loop.call_soon_threadsafe(_take_and_tell, take, part, taken)

    return deliver


def _take_and_tell(take: Take, part: Sequence[LogRecord], taken: threading.Event) -> None:
    try:
        take(part)
    finally:
        taken.set()


def _parts(records: Sequence[LogRecord]) -> Iterator[Sequence[LogRecord]]:
    begin = part_bytes = 0
    for at, record in enumerate(records):
        if at > begin and (part_bytes > BYTES_AT_ONCE or at - begin >= LINES_AT_ONCE):
            yield records[begin:at]
            begin, part_bytes = at, 0
        part_bytes += record.memory_bytes
    if begin < len(records):
        yield records[begin:]
