"""Finds where each run begins in a log that holds several, as a unit's journal does."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.diagnose.grammar import LogLine, parse
from vllm_warden.core.diagnose.quoted import is_quotation

_ARGUMENTS, _USAGE = "non-default args: ", "usage: vllm "
"""vLLM's API server says its arguments once per run; argparse refuses with its usage instead."""
_HINT = re.compile(r"non-default args: |usage: vllm ")
LOOK_AT = 240
BEFORE_MAX = 12
"""Lines that a run prints before its arguments (imports, banner, version)."""
END = re.compile(
    r"Application shutdown complete|Engine core initialization failed|^\S*Error: |error: argument |"
    r"error: unrecognized"
)


def begins_run(record: LogRecord) -> bool:
    """True when an engine says with this record that it begins; a quotation of that does not."""
    if not _HINT.search(record.text, 0, LOOK_AT):
        return False
    lines = parse(record.number, record.text[: 4 * LOOK_AT])
    return any(_is_begin(line) for line in lines)


def _is_begin(line: LogLine) -> bool:
    message = line.message
    if message.startswith(_ARGUMENTS):
        return bool(line.source) and line.level == "INFO" and not is_quotation(line)
    return message.startswith(_USAGE) and not line.level


def runs(records: Iterable[LogRecord]) -> Iterator[Iterator[LogRecord]]:
    """Each run's records, in order. Take all of one before the next; keeps few lines in memory.

    A log in which no run begins, or one, is one run.
    """
    log = _Runs(iter(records))
    while log.has_more():
        yield log.run()


class _Runs:
    def __init__(self, records: Iterator[LogRecord]) -> None:
        self._records = records
        self._ahead: deque[LogRecord] = deque()
        """The begin of the run that comes next."""

    def has_more(self) -> bool:
        if not self._ahead:
            self._ahead.extend(record for record in [next(self._records, None)] if record)
        return bool(self._ahead)

    def run(self) -> Iterator[LogRecord]:
        held: deque[LogRecord] = deque()
        has_begun = False
        while (record := self._next()) is not None:
            if begins_run(record) and (not has_begun or self._is_meant(record)):
                if has_begun:
                    before = _before(held, record)
                    for _ in range(len(held) - len(before)):
                        yield held.popleft()
                    self._ahead.extendleft([record, *reversed(before)])
                    return
                has_begun = True
                yield from held
                held.clear()
                yield record  # never taken for something ahead of the next run
                continue
            held.append(record)
            if len(held) > BEFORE_MAX:
                yield held.popleft()
        yield from held

    def _is_meant(self, begin: LogRecord) -> bool:
        """A usage alone begins nothing: argparse says an error right behind it."""
        if _ARGUMENTS in begin.text:
            return True
        while len(self._ahead) < BEFORE_MAX and (record := next(self._records, None)):
            self._ahead.append(record)
        return any(": error: " in record.text for record in islice(self._ahead, BEFORE_MAX))

    def _next(self) -> LogRecord | None:
        return self._ahead.popleft() if self._ahead else next(self._records, None)


def _before(held: Iterable[LogRecord], begin: LogRecord) -> list[LogRecord]:
    """What of the lines just before belongs to the run that begins, oldest first."""
    found: list[LogRecord] = []
    for record in reversed(list(held)):
        if END.search(record.text) or begin.number - record.number > BEFORE_MAX:
            break
        found.insert(0, record)
    return found
