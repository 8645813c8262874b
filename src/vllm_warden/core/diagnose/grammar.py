"""Turns one raw record of an engine's log into lines with their process, level and message.

Knows every prefix that vLLM 0.8.5 to 0.33 writes: coloured and plain process tags, stacked tags
of forked workers and of Ray's actors, the text of VLLM_LOGGING_PREFIX before or behind the tag,
and JSON records. What journals and containers put around a line is gone before (``envelopes``).
Linear in the length of a record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from vllm_warden.core.diagnose.long_line import parted

LINE_LIMIT = 16_384
"""Characters of one line that are looked at; what proves a cause comes early in a line."""

LINES_PER_RECORD = 2000
"""Of a record with more lines (JSON tracebacks) the first and the last half are looked at."""
OVERWRITTEN_LINES = 64
"""The same for what progress bars overwrite with CR: a terminal would show the last only."""

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[ -/]{0,2}[@-~]")
_COLOUR_ON, _COLOUR_OFF = "\x1b[1;36m", "\x1b[0;0m"
"""What vLLM puts around a process tag, on every line of a traceback."""
_TAG = re.compile(
    r"[(\[](?P<name>[A-Za-z][\w.:-]{0,80}(?: rank=\d{1,5}|(?: [A-Z]{2,5}\d{1,5}){1,6})?)"
    r",? pid=(?P<pid>\d{1,10})(?:, ip=[\w.:]{1,45})?[)\]] ?"
)
_HEADER = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) "
    r"\[?(?P<file>[\w./-]{1,120}):(?P<at>\d{1,6})\] ?"
)
_TORCH_RANK = re.compile(r"\[(?P<name>rank\d{1,5})\]: ?")
"""torch.distributed marks the uncaught tracebacks of its ranks so."""
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): {2,6}")
_UVICORN_RECORD = re.compile(
    r"(?:\([A-Za-z][\w.:, =-]{0,160}\) ?){0,8}(?:DEBUG|INFO|WARNING|ERROR|CRITICAL): {2,6}"
)
_RANK = re.compile(r"(?:rank=?|TP|VllmWorker-|Worker_)(\d{1,5})")
_QUOTE = re.compile(r"[\"']")
_HEADER_WITHIN = 240
"""A record's own header begins within so many characters; later ones are quoted text."""


class LogLine(NamedTuple):
    """One line of a record. ``source`` is the record's level, time and origin; "" when it has none.

    A tuple because thousands are made while a decision waits for them.
    ``process`` is the innermost process tag ("EngineCore_DP0", "Worker_TP1"), "" without one.
    ``message`` keeps leading blanks (they tell frames from exceptions), never trailing ones.
    """

    number: int
    message: str
    process: str = ""
    pid: int | None = None
    level: str | None = None
    file: str | None = None
    source: str = ""

    @property
    def rank(self) -> int | None:
        """Tensor parallel or global rank that the tag names."""
        found = _RANK.search(self.process) if self.process else None
        return int(found[1]) if found else None


def looks_like_json(text: str) -> bool:
    """True for what a JSON formatter writes, and for any text in that form."""
    return text.startswith("{") and '"levelname"' in text


def parse(number: int, text: str, *, lines_max: int = LINES_PER_RECORD) -> Iterator[LogLine]:
    """The lines of one record: several for JSON tracebacks and progress bars (CR)."""
    if "\x1b" in text:
        text = text.replace(_COLOUR_ON, "").replace(_COLOUR_OFF, "")
        if "\x1b" in text:
            text = _ANSI.sub("", text)
    if looks_like_json(text):
        lines = _parse_json(number, text, lines_max)
        if lines is not None:
            return iter(lines)
    if "\r" in text:
        return _overwritten(
            number, _bounded(_RETURNS.split(text), min(lines_max, OVERWRITTEN_LINES))
        )
    return iter((_parse_text(number, text[:LINE_LIMIT]),))


_RETURNS = re.compile(r"[\r\n]+")


def _overwritten(number: int, parts: list[str]) -> Iterator[LogLine]:
    """What CR parts: progress bars and then a record, or a record that quotes a user's CR.

    A record is written whole, with LF behind it. What stands behind a CR in it is its own text,
    whatever head it has.
    """
    record: LogLine | None = None
    for part in parts:
        if not part or part.isspace():
            continue
        if record is not None:
            yield record._replace(message=part[:LINE_LIMIT].rstrip())
            continue
        line = _parse_text(number, part[:LINE_LIMIT])
        record = line if line.file is not None else None
        yield line


def _bounded(parts: list[str], lines_max: int) -> list[str]:
    half = lines_max // 2
    return parts if len(parts) <= 2 * half else parts[:half] + parts[-half:]


def _parse_text(number: int, text: str) -> LogLine:
    close = text.find("] ", 0, _HEADER_WITHIN)
    head = _known_head(text[: close + 2]) if close >= 0 else None
    head = head or _head(text)
    if head:
        name, pid, end = head.process, head.pid, head.end
        trailing = _TAG.match(text, end) if text.startswith("(", end) else None
        if trailing:  # a logger format that puts the tag behind the header
            name, pid, end = trailing["name"], int(trailing["pid"]), trailing.end()
        return LogLine(number, text[end:].rstrip(), name, pid, head.level, head.file, head.source)
    start = 0
    name, pid, level = "", None, None
    while tag := _TAG.match(text, start):
        name, pid, start = tag["name"], int(tag["pid"]), tag.end()
    if rank := _TORCH_RANK.match(text, start):
        name, start = rank["name"], rank.end()
    if uvicorn := _UVICORN.match(text, start):
        level, start = uvicorn["level"], uvicorn.end()
    return LogLine(number, text[start:].rstrip(), name, pid, level, "uvicorn" if level else None)


@dataclass(frozen=True, slots=True)
class _Head:
    """What a record has before its message, which begins at ``end``."""

    process: str
    pid: int | None
    level: str
    file: str
    source: str
    end: int


def _head(text: str) -> _Head | None:
    """None where the record has no header of its own."""
    if _UVICORN_RECORD.match(text):
        return None  # it quotes paths and addresses that clients choose
    header = _HEADER.search(text, 0, _HEADER_WITHIN)
    if header is None or _QUOTE.search(text, 0, header.start()):
        return None  # what stands in quotes is quoted
    name, pid = _last_tag(text, header.start())
    return _Head(name, pid, header["level"], header["file"], header[0].rstrip(), header.end())


_known_head = lru_cache(maxsize=256)(_head)
"""A traceback repeats its head on each of a thousand lines. Given only the text up to the first
"] ", which holds a whole header or the begin of something else: then the line itself is read."""


def _last_tag(text: str, end: int) -> tuple[str, int | None]:
    name, pid = "", None
    for tag in _TAG.finditer(text, 0, end):
        name, pid = tag["name"], int(tag["pid"])
    return name, pid


def _parse_json(number: int, text: str, lines_max: int) -> list[LogLine] | None:
    """Lines of a ``--logging-config.formatter json`` record (vLLM 0.32), None if it is none."""
    record = _json_object(text)
    if record is None:
        return None
    process = str(record.get("vllm_process_name") or record.get("processName") or "")
    if process == "MainProcess":
        process = ""
    pid = record.get("process")
    level = str(record.get("levelname"))
    name = str(record.get("name", ""))
    file = "uvicorn" if name.startswith("uvicorn") else name.rpartition(".")[2] + ".py"
    source = f"{level} {record.get('asctime', '')} {name}"
    body = str(record.get("message", ""))
    trace = record.get("exc_info")
    if isinstance(trace, str):
        body += "\n" + trace
    known_pid = pid if isinstance(pid, int) else None
    return [
        LogLine(number, part[:LINE_LIMIT].rstrip(), process, known_pid, level, file, source)
        for part in _bounded(body.split("\n"), lines_max)
    ]


def _json_object(text: str) -> dict[str, object] | None:
    """Of a shortened record as much as there is: its traceback comes last."""
    text, note = parted(text)
    if note:
        text = _BEHIND_LAST_ESCAPE.sub("", text) + '"}'
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


_BEHIND_LAST_ESCAPE = re.compile(r"(?<!\\)(?:\\\\){0,8}\\(?:u[0-9a-fA-F]{0,3})?\Z")
"""An escape that lost its end; a JSON string that was cut there could not be closed."""
