"""Passes over what a healthy engine writes all day long, before anything is decoded or parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vllm_warden.core.diagnose.envelopes.block import Block

Line = tuple[int, bytes, int]
"""Number, bytes without line end, and how many bytes of it were dropped."""

ALWAYS_TAKEN = 64
"""Of each run's ordinary lines so many are taken in any case: whether a log is in JSON is told
from its first records."""

_TAG = rb"(?P<tag>(?:(?:\x1b\[[\d;]{1,8}m)?\(\w{1,40} pid=\d{1,10}\)(?:\x1b\[[\d;]{1,8}m)? )?)"
_QUOTED = rb"'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'"
_ACCESS = rb":     [^ \"\n]{2,60}+ - \"[^\"\n]{1,4000}+\" [1-4].{0,60}+\n"
"""What uvicorn says of each request that was answered without a fault of the server."""
_RATES = (
    rb"(?:loggers|metrics)\.py:\d{1,6}\] (?:Engine \d{1,5}: )?Avg prompt throughput: .{1,20}?"
    rb" tokens/s, Avg generation throughput: (?:(?!0\.0 )|0\.0 tokens/s, Running: 0 reqs,)"
    rb".{0,8000}+\n"
)
"""An engine that makes progress, or has nothing to do."""
_REQUEST = (
    rb"(?:request_)?logger\.py:\d{1,6}\] (?=.{0,8000}+\n)Received request [^\s:]{1,200}+: "
    rb"(?:prompt: (?:None|" + _QUOTED + rb"), )?+params: .{0,8000}+\n"
)
"""A request whose prompt ends on its own line."""
_ADDED = rb"async_llm(?:_engine)?\.py:\d{1,6}\] Added request [^\s:]{1,200}+\r?\n"
_LINE = (rb"INFO(?:%s| .{14} \[(?:%s|%s|v1/engine/%s|entrypoints/(?:openai/)?%s))") % (
    _ACCESS,
    _ADDED,
    _REQUEST,
    _ADDED,
    _REQUEST,
)
"""Written for speed: folders are spelled out, and ``.`` is the fastest way to a line's end."""
_RATES_LINE = rb"INFO .{14} \[(?:v1/metrics/)?" + _RATES
_STRETCH = re.compile(
    _TAG
    + rb"(?:%s(?:(?P=tag)%s)*+|(?P<rates>%s(?:(?P=tag)%s)*+))"
    % (_LINE, _LINE, _RATES_LINE, _RATES_LINE)
)
"""Ordinary lines of one process, as many as follow each other; rates are no others' equals."""
_FORMS = (b"INFO: ", b"INFO ")
"""With and without a record's head: what such a line ends, another line of its form has ended."""
_RATES_FORM = (b"INFO ",)
_LEVEL_WITHIN = 96
"""Bytes in front of the level at most: a coloured process tag. Cheap to rule a line out by."""
_BEGINS_RUN = re.compile(rb"[^\n]{0,300}?(?:non-default args|usage: vllm)")


class Extraordinary:
    """Fed blocks; gives their lines in order without the ordinary ones that change nothing.

    Of ordinary lines between others the first of every process and form is given, and the very
    last, and the last with rates: such a line may end what another began (a quotation, a
    traceback, a silence), and a further one like it changes nothing more.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[bytes, bytes, bool]] = set()
        self._taken = 0
        self._last: dict[bool, tuple[Block, int, int, int]] = {}
        """The last line passed over without and with rates: its block, a place with its index,
        where it begins."""

    def lines(self, block: Block) -> Iterator[Line]:
        data, at, index = block.data, 0, 0
        end = len(data)
        while at < end:
            may_be = data.find(b"INFO", at, at + _LEVEL_WITHIN) >= 0
            found = _STRETCH.match(data, at) if may_be else None
            if found is None:
                stop = data.find(b"\n", at) + 1
                if self._last:
                    yield from self.rest()
                self._seen.clear()
                line = data[at : stop - 1]
                if self._taken and _BEGINS_RUN.match(line):
                    self._taken = 0
                yield block.number(index), line, block.dropped_bytes if stop == end else 0
                index += 1
            else:
                stop = found.end()
                places = self._places(data, found)
                for place in places:
                    index += data.count(b"\n", at, place)
                    at = place
                    yield block.number(index), data[at : data.find(b"\n", at)], 0
                begin = data.rfind(b"\n", at, stop - 1) + 1 or at
                is_given = bool(places) and places[-1] == begin
                is_rates = found["rates"] is not None
                self._last.pop(is_rates, None)
                if not is_given:
                    self._last[is_rates] = (block, at, begin, index)
                if stop < end:  # counting takes time; the next block knows its first number
                    index += data.count(b"\n", at, stop)
            at = stop

    def rest(self) -> Iterator[Line]:
        """The last lines that were passed over, where some were."""
        lines = []
        for block, at, begin, index in self._last.values():
            number = block.number(index + block.data.count(b"\n", at, begin))
            lines.append((number, block.data[begin : block.data.find(b"\n", begin)], 0))
        self._last.clear()
        yield from sorted(lines)

    def _places(self, data: bytes, found: re.Match[bytes]) -> list[int]:
        """Where lines begin that must be given, in order."""
        (at, stop), tag = found.span(), found["tag"]
        places: set[int] = set()
        while at < stop and self._taken < ALWAYS_TAKEN:
            places.add(at)
            self._taken += 1
            at = data.find(b"\n", at) + 1
        at = found.start()
        is_rates = found["rates"] is not None
        for form in _RATES_FORM if is_rates else _FORMS:
            if (tag, form, is_rates) not in self._seen:
                is_first = data.startswith(tag + form, at)
                place = at if is_first else data.find(b"\n" + tag + form, at, stop) + 1
                if is_first or place:
                    places.add(place)
                    self._seen.add((tag, form, is_rates))
        return sorted(places)


def extraordinary(blocks: Iterable[Block]) -> Iterator[Line]:
    """What of these blocks must be looked at, in order."""
    passing = Extraordinary()
    for block in blocks:
        yield from passing.lines(block)
    yield from passing.rest()
