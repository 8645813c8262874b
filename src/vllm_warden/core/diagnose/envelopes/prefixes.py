"""Knows what other programs put in front of each line, and takes it off."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from vllm_warden.core.diagnose.envelopes.block import Block

_DAY = rb"\d{4}-\d\d-\d\d"
_CLOCK = rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO = _DAY + rb"T" + _CLOCK + rb"(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = rb"[A-Z][a-z]{2} [ \d]\d " + _CLOCK
_TIME = _MONTH + rb"|" + _DAY + rb"[T ]" + _CLOCK + rb"(?:Z|[+-]\d\d:?\d\d)?"
_COLOUR = rb"(?:\x1b\[[\d;]{0,12}m)?"
_IDENTIFIER = rb"(?:[\w.-]{1,255} )?(?:[^\s\[:]{1,120}\[\d{1,10}\]|kernel): "
"""Host (absent with ``--no-hostname``), name and pid."""
_TAG_GROUP = rb"(?P<tag>[\w.-]{1,255} [\w./@-]{1,120}: )"
_NO_PID = re.compile(rb"(?:<\d{1,3}>)?(?:" + _MONTH + rb"|" + _ISO + rb") " + _TAG_GROUP)
"""As ``logger`` writes it: also a time stamp and the text "name: " of somebody, so only where all
lines say the same."""

PREFIXES: dict[str, re.Pattern[bytes]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "syslog (RFC 5424)": rb"(?:<\d{1,3}>)?1 "
        + _ISO
        + rb" \S{1,255} \S{1,48} \S{1,128} \S{1,32} (?:-|\[[^\]\n]{0,400}\]) ?(?:\xef\xbb\xbf)?",
        "journalctl": rb"(?:<\d{1,3}>)?(?:"
        + rb"|".join(
            [
                _MONTH,
                rb"[A-Z][a-z]{2} " + _DAY + rb" " + _CLOCK + rb" [\w+:/-]{1,40}",
                _ISO,
                rb"\d{9,12}\.\d{6}",
                rb"\[ {0,12}\d{1,12}\.\d{6}(?: < {0,12}\d{0,12}\.?\d{0,6} >)?\]",
            ]
        )
        + rb") "
        + _IDENTIFIER,
        "docker compose": _COLOUR + rb"[\w.-]{1,120} {1,40}\|(?: \x1b\[0m|\x1b\[0m ?| )?",
        "kubectl --prefix": _COLOUR + rb"\[pod/[\w.-]{1,253}/[\w.-]{1,253}\]" + _COLOUR + rb" ?",
        "pm2": rb"\d{1,4}\|[\w.-]{1,80} {1,40}\| ?",
        "time stamps": rb"(?:\[(?:" + _TIME + rb")\]|(?:" + _TIME + rb"))(?: |$)",
        "seconds since the start": rb"(?:\[ {0,12}\d{1,9}\.\d{2,9}\]| {0,8}\d{1,7}\.\d{2,6}) ",
        "srun -l": rb" {0,4}\d{1,5}: ",
        "quotation marks": rb"> ?",
    }.items()
}
"""By name, the more special ones first: the first that all lines have is taken off.

journalctl 252 writes short, short-precise, short-iso, short-iso-precise, short-full, short-unix,
short-monotonic, short-delta and with-unit so; rsyslog the same in files.
"""


class Prefixed:
    """Takes one prefix off every line that has it; foreign lines stay as they are."""

    def __init__(self, name: str, pattern: re.Pattern[bytes] | None = None) -> None:
        self.name = name
        self._match = (pattern or PREFIXES[name]).match

    def has(self, line: bytes) -> bool:
        return self._match(line) is not None

    def undo(self, block: Block) -> Block | None:
        data = b"\n".join(self.strip(block.lines())) + b"\n"
        return Block(block.first, data, block.dropped_bytes, block.numbers)

    def strip(self, lines: Sequence[bytes]) -> list[bytes]:
        match = self._match
        return [line[found.end() :] if (found := match(line)) else line for line in lines]

    def finish(self) -> Block | None:
        return None


def prefix_of(lines: Sequence[bytes], needed: float) -> Prefixed | None:
    """The outermost prefix that so large a part of the lines has."""
    at_least = needed * len(lines)
    for name, pattern in PREFIXES.items():
        if _count(pattern, lines, at_least) >= at_least:
            return Prefixed(name)
        if name == "journalctl":
            tags = Counter(found["tag"] for line in lines if (found := _NO_PID.match(line)))
            for tag, count in tags.most_common(1):
                if count >= at_least:
                    whole = _NO_PID.pattern.replace(_TAG_GROUP, re.escape(tag))
                    return Prefixed("syslog", re.compile(whole))
    return None


def _count(pattern: re.Pattern[bytes], lines: Sequence[bytes], needed: float) -> int:
    """How many lines match; not counted further once the rest cannot make it enough."""
    missing = 0
    for line in lines:
        if not pattern.match(line):
            missing += 1
            if len(lines) - missing < needed:
                return 0
    return len(lines) - missing
