"""Takes log lines out of JSON objects: journalctl's, docker's files, log shippers'."""

from __future__ import annotations

import json
from collections.abc import Mapping

from vllm_warden.core.diagnose.envelopes.block import Block, block_of

_OWN = "levelname"
"""vLLM's own JSON formatter writes it: those objects are records, no envelope."""
_TEXTS: tuple[tuple[str, frozenset[str]], ...] = (
    ("MESSAGE", frozenset({"__REALTIME_TIMESTAMP", "__CURSOR", "_BOOT_ID", "PRIORITY"})),
    ("log", frozenset({"stream", "time", "kubernetes", "@timestamp", "date"})),
    ("line", frozenset({"timestamp", "labels", "ts"})),
    ("textPayload", frozenset({"timestamp", "logName"})),
    ("message", frozenset({"timestamp", "@timestamp"})),
)
"""The member that holds the line, and members of which one must be beside it."""
_DOCKERS = frozenset({"log", "stream", "time", "attrs"})
"""Docker's own files hold nothing else; only there a text without line end goes on."""


def text_member(document: object) -> str | None:
    """The member of this object that is a line of somebody's log; None where there is none."""
    if not isinstance(document, Mapping) or _OWN in document:
        return None
    for name, beside in _TEXTS:
        if name in document and not beside.isdisjoint(document):
            return name
    return None


def object_in(line: bytes) -> object:
    """The JSON object of one line (journalctl's json, json-sse and json-seq), None without."""
    line = line.removeprefix(b"\x1e").removeprefix(b"data: ")
    if not line.startswith(b"{"):
        return None
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def text_of(value: object) -> bytes:
    """A text, an array of bytes, null where too long, or an array of those (journald's rules)."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, list) and value:
        if isinstance(value[0], list | str):
            value = value[0]
        if isinstance(value, str):
            return value.encode("utf-8", "replace")
        if all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
            return bytes(value)
    return b""


class JsonLines:
    """One object a line; the parts into which docker cuts a long line are put together again."""

    name = "JSON lines"

    def __init__(self) -> None:
        self._begun: dict[str, tuple[int, bytes]] = {}

    def undo(self, block: Block) -> Block | None:
        found: list[tuple[int, bytes]] = []
        for index, line in enumerate(block.lines()):
            number = block.number(index)
            document = object_in(line)
            member = text_member(document)
            if member is not None and isinstance(document, dict):
                self._take(number, document, member, found)
            elif line.strip() and document is None:
                found.append((number, line))
        return block_of(found)

    def strip(self, lines: list[bytes]) -> list[bytes]:
        block = JsonLines().undo(Block(1, b"\n".join(lines) + b"\n"))
        return block.lines() if block else []

    def finish(self) -> Block | None:
        rest = sorted(self._begun.values())
        self._begun.clear()
        return block_of(rest)

    def _take(
        self,
        number: int,
        document: Mapping[str, object],
        member: str,
        found: list[tuple[int, bytes]],
    ) -> None:
        text = text_of(document[member])
        if member != "log" or not _DOCKERS.issuperset(document):
            found += [(number, part) for part in text.removesuffix(b"\n").split(b"\n")]
            return
        stream = str(document.get("stream"))
        first, begun = self._begun.pop(stream, (number, b""))
        if text.endswith(b"\n") or len(begun) > _PARTS_BYTES_MAX:
            found += [(first, part) for part in (begun + text)[:-1].split(b"\n")]
        else:
            self._begun[stream] = (first, begun + text)


_PARTS_BYTES_MAX = 1 << 20
