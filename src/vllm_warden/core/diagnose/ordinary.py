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
_INFO = rb"INFO \d\d-\d\d \d\d:\d\d:\d\d \[(?:[\w/]{1,60}/)?"
_END = rb"[^\n\r]{0,8000}+\n"
_QUOTED = rb"'[^'\\\n\r]*+(?:\\[^\n\r][^'\\\n\r]*+)*+'"
_KINDS: dict[str, bytes] = {
    # what uvicorn says of each request that was answered without a fault of the server
    "access": rb"INFO:     [\da-fA-F.:\[\]]{2,60} - \"[A-Z]{3,7} [^\"\n\r]{1,4000}+\" [1-4]\d\d"
    rb"[^\n\r\"]{0,40}+\n",
    # an engine that makes progress, or has nothing to do
    "rates": _INFO
    + rb"(?:loggers|metrics)\.py:\d{1,6}\] (?:Engine \d{1,5}: )?Avg prompt throughput: "
    + rb"[\d.]{1,20} tokens/s, Avg generation throughput: (?:(?!0\.0 )[\d.]{1,20} tokens/s,"
    + rb"|0\.0 tokens/s, Running: 0 reqs,)"
    + _END,
    # a request whose prompt ends on its own line
    "request": _INFO
    + rb"(?:request_)?logger\.py:\d{1,6}\] (?=[^\n\r]{0,8000}\n)Received request [^\s:]{1,200}: "
    + rb"(?:prompt: (?:None|"
    + _QUOTED
    + rb"), )?params: "
    + _END,
    "added": _INFO + rb"async_llm(?:_engine)?\.py:\d{1,6}\] Added request [^\s:]{1,200}\n",
}
_STRETCH = re.compile(
    _TAG
    + rb"(?:"
    + rb"|".join(
        rb"(?P<%s>%s(?:(?P=tag)%s)*+)" % (name.encode(), body, body)
        for name, body in _KINDS.items()
    )
    + rb")"
)
"""Many lines of one kind and one process at once."""
_BEGINS_RUN = re.compile(rb"[^\n]{0,300}?(?:non-default args|usage: vllm)")


class Extraordinary:
    """Fed blocks; gives their lines in order without the ordinary ones that change nothing.

    Of each stretch of ordinary lines the first of every kind and process is given, and the very
    last: an ordinary line may end what another began (a quotation, a traceback), and a second
    one like it ends nothing more.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str | None, bytes]] = set()
        self._taken = 0
        self._last: Line | None = None

    def lines(self, block: Block) -> Iterator[Line]:
        data, at, index = block.data, 0, 0
        end = len(data)
        while at < end:
            found = _STRETCH.match(data, at)
            if found is None:
                stop = data.find(b"\n", at) + 1
                yield from self.rest()
                self._seen.clear()
                dropped = block.dropped_bytes if stop == end else 0
                line = data[at : stop - 1]
                if _BEGINS_RUN.match(line):
                    self._taken = 0
                yield block.number(index), line, dropped
                index += 1
            else:
                stop = found.end()
                yield from self._ordinary(block, found, index)
                index += data.count(b"\n", at, stop)
            at = stop

    def rest(self) -> Iterator[Line]:
        """The last line that was passed over, where one was."""
        if self._last is not None:
            yield self._last
            self._last = None

    def _ordinary(self, block: Block, found: re.Match[bytes], index: int) -> Iterator[Line]:
        data, (at, stop) = block.data, found.span()
        key = (found.lastgroup, found["tag"])
        while at < stop and (self._taken < ALWAYS_TAKEN or key not in self._seen):
            self._seen.add(key)
            self._taken += 1
            next_line = data.find(b"\n", at) + 1
            self._last = None
            yield block.number(index), data[at : next_line - 1], 0
            index += 1
            at = next_line
        if at < stop:
            begin = data.rfind(b"\n", at, stop - 1) + 1 or at
            index += data.count(b"\n", at, begin)
            self._last = (block.number(index), data[begin : stop - 1], 0)


def extraordinary(blocks: Iterable[Block]) -> Iterator[Line]:
    """What of these blocks must be looked at, in order."""
    passing = Extraordinary()
    for block in blocks:
        yield from passing.lines(block)
    yield from passing.rest()
