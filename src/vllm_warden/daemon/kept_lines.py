"""Keeps of an attempt's log what may be needed to explain its death, within fixed memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache

from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.diagnose.grammar import parse
from vllm_warden.core.diagnose.long_line import is_shortened
from vllm_warden.core.diagnose.quoted import is_quotation

FIRST_LINES_KEPT = 1500
FIRST_BYTES_KEPT = 8 << 20
LAST_LINES_KEPT = 6000
"""A tensor-parallel crash prints each traceback up to eight times, some 1,000 lines in all."""
LAST_BYTES_KEPT = 16 << 20
ERROR_LINES_KEPT = 2000
"""When an engine dies, each waiting client's traceback follows the one that tells the cause."""
ERROR_BYTES_KEPT = 8 << 20
LINES_BEFORE_ERROR = 20
QUIET_SECONDS = 30.0
"""An engine that goes on for so long without an error has survived the ones before."""
SURVIVED_SECONDS = 300.0
"""An engine that goes on for so long has survived an error, whatever else it printed since."""

_LOOK_AT = 400
_SIGNS = ("ERROR", "CRITICAL", "Traceback (most", "terminate called", "Fatal Python")
_HEADER_WITHIN = 240
_MAY_BEGIN_OTHERWISE = frozenset({"", "(", "\x1b", "R", "G", "A", "D"})
"""A message that begins so may have a process tag in front, or quote a request."""
_API_SERVER = ("(APIServer", "(ApiServer", "\x1b[0;36m(A", "\x1b[1;36m(A")


@dataclass(slots=True)
class _Region:
    """Records in order, at most so many and so many bytes."""

    lines_max: int
    bytes_max: int
    lines: deque[LogRecord] = field(default_factory=deque)
    used_bytes: int = 0
    full: bool = False

    def append(self, record: LogRecord, size: int) -> bool:
        """False, and for ever, once there is no more room."""
        fits = len(self.lines) < self.lines_max and self.used_bytes + size <= self.bytes_max
        if self.full or not fits:
            self.full = True
            return False
        self.lines.append(record)
        self.used_bytes += size
        return True

    def push(self, record: LogRecord, size: int) -> None:
        """Make room by dropping the oldest."""
        self.lines.append(record)
        self.used_bytes += size
        while len(self.lines) > self.lines_max or self.used_bytes > self.bytes_max:
            self.used_bytes -= self.lines.popleft().memory_bytes

    def clear(self) -> None:
        self.lines.clear()
        self.used_bytes, self.full = 0, False


class KeptLines:
    """Fed every record of one attempt in order; bounded in lines and in bytes (32 MiB).

    Kept are the first lines, the last ones, and those from the first error of the engine on: the
    first since it entered a phase, or since it was quiet for half a minute. What API servers that
    name themselves say of single requests is no error of the engine.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._first = _Region(FIRST_LINES_KEPT, FIRST_BYTES_KEPT)
        self._errors = _Region(ERROR_LINES_KEPT, ERROR_BYTES_KEPT)
        self._last = _Region(LAST_LINES_KEPT, LAST_BYTES_KEPT)
        self._recent: deque[LogRecord] = deque(maxlen=LINES_BEFORE_ERROR)
        self._error_at_seconds: float | None = None
        self._at_seconds: float | None = None
        self._loose_errors: deque[LogRecord] = deque()
        self._lost_error: LogRecord | None = None

    def take(self, record: LogRecord, *, entered_phase: bool = False) -> None:
        self._seen += 1
        self._at_seconds = record.at_seconds
        is_error = _is_error(record.text)
        if entered_phase and not is_error:
            self._forget_errors()
        if is_error:
            self._begin_errors(record)
        in_errors = False
        size = record.memory_bytes
        if is_error or (self._errors.lines and not record.text.startswith(_API_SERVER)):
            in_errors = self._errors.append(record, size)
        self._recent.append(record)
        if self._first.append(record, size):
            return
        self._last.push(record, size)
        if is_error and not in_errors:
            self._loose_errors.append(record)
        while self._loose_errors and self._loose_errors[0].number < self._last.lines[0].number:
            self._lost_error = self._loose_errors.popleft()

    def records(self) -> tuple[LogRecord, ...]:
        """What is kept, in order, each once."""
        kept: dict[int, LogRecord] = {}
        for region in (self._first, self._errors, self._last):
            kept.update((record.number, record) for record in region.lines)
        return tuple(kept[number] for number in sorted(kept))

    @property
    def lost_lines(self) -> int:
        """How many lines came and are not kept."""
        return self._seen - len(self.records())

    @property
    def lost_errors(self) -> bool:
        """An error that the engine may have died of is not kept (whole): no verdict is safe."""
        lost, now = self._lost_error, self._at_seconds
        if lost is None:
            return False
        return lost.at_seconds is None or now is None or now - lost.at_seconds < SURVIVED_SECONDS

    def _begin_errors(self, record: LogRecord) -> None:
        """The first error brings the lines before it along; one after a quiet time begins anew."""
        last, self._error_at_seconds = self._error_at_seconds, record.at_seconds
        now = record.at_seconds
        if last is not None and now is not None and now - last > QUIET_SECONDS:
            self._forget_errors()
        if record.text.startswith("{") and is_shortened(record.text):
            self._lost_error = record  # the end of a JSON record is the end of its traceback
        if not self._errors.lines:
            for before in self._recent:
                self._errors.append(before, before.memory_bytes)

    def _forget_errors(self) -> None:
        self._errors.clear()
        self._loose_errors.clear()
        self._lost_error = None


def _is_error(text: str) -> bool:
    """Whether the engine says that something went wrong, itself or through the interpreter."""
    head = text[:_LOOK_AT]
    for sign in _SIGNS:
        if sign in head:
            return not text.startswith(_API_SERVER) and _speaks_of_error(head)
    return False


def _speaks_of_error(head: str) -> bool:
    if head.startswith("{"):
        return '"levelname": "ERROR"' in head or '"levelname": "CRITICAL"' in head
    begin = head.find("] ", 0, _HEADER_WITHIN) + 2
    if begin > 1 and head[begin : begin + 1] not in _MAY_BEGIN_OTHERWISE and "\r" not in head:
        level_tells = _level_tells(head[:begin])
        if level_tells is not None:
            return level_tells
    lines = list(parse(0, head))
    if any(is_quotation(line) for line in lines):
        return False
    return any(
        line.level in ("ERROR", "CRITICAL")
        or (line.level is None and any(sign in line.message for sign in _SIGNS[2:]))
        for line in lines
    )


@lru_cache(maxsize=256)
def _level_tells(head: str) -> bool | None:
    """Whether a record with this head is an error; None where that takes the whole line.

    A traceback has the same head on each of its lines.
    """
    line = next(parse(0, head))
    if not line.source:
        return None
    return line.level in ("ERROR", "CRITICAL") and not is_quotation(line)
