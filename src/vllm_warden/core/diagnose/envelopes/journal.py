"""Takes log lines out of journalctl's formats of several lines: export, verbose, json-pretty."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.envelopes.block import Block, block_of
from vllm_warden.core.diagnose.envelopes.json_lines import object_in, text_member, text_of

_ENTRY_BYTES_MAX = 8 << 20
_FIELD = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")
_VERBOSE = re.compile(
    rb"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} \S{1,40} \[s=[^\]]*\]$"
)
_VERBOSE_FIELD = re.compile(rb" {4}([A-Z_][A-Z0-9_]{0,63})=(.*)", re.DOTALL)


class Export:
    """``journalctl -o export``: NAME=text, or NAME, eight bytes of length, and so many bytes.

    Lines are counted as ``journalctl -o cat`` prints them: one an entry.
    """

    name = "journalctl -o export"

    def __init__(self) -> None:
        self._rest = b""
        self._number = 0

    @staticmethod
    def begins(lines: list[bytes]) -> bool:
        return bool(lines) and lines[0].startswith((b"__CURSOR=", b"__REALTIME_TIMESTAMP="))

    def undo(self, block: Block) -> Block | None:
        data = self._rest + block.data
        found: list[tuple[int, bytes]] = []
        at = 0
        while (end := self._field(data, at, found)) > at:
            at = end
        self._rest = data[at:]
        if len(self._rest) > _ENTRY_BYTES_MAX:  # a core dump in a field, or no such format
            self._rest = self._rest[-1:]
        return block_of(found)

    def strip(self, lines: list[bytes]) -> list[bytes]:
        block = Export().undo(Block(1, b"\n".join(lines) + b"\n"))
        return block.lines() if block else []

    def finish(self) -> Block | None:
        return None

    def _field(self, data: bytes, at: int, found: list[tuple[int, bytes]]) -> int:
        """Where the field that begins here ends; ``at`` where it has not ended yet."""
        end = data.find(b"\n", at)
        if end < 0:
            return at
        name, is_text, value = data[at:end].partition(b"=")
        if not is_text and _FIELD.fullmatch(name):
            length = int.from_bytes(data[end + 1 : end + 9], "little")
            begin = end + 9
            if begin + length + 1 > len(data):
                return at
            value, end = data[begin : begin + length], begin + length
        if name == b"MESSAGE":
            for part in value.split(b"\n"):
                self._number += 1
                found.append((self._number, part))
        return end + 1


class Verbose:
    """``journalctl -o verbose``: a line of time and cursor, then a field on each line."""

    name = "journalctl -o verbose"

    @staticmethod
    def begins(lines: list[bytes]) -> bool:
        return bool(lines) and bool(_VERBOSE.match(lines[0]))

    def undo(self, block: Block) -> Block | None:
        return block_of(
            [
                (block.number(index), field[2])
                for index, line in enumerate(block.lines())
                if (field := _VERBOSE_FIELD.match(line)) and field[1] == b"MESSAGE"
            ]
        )

    def strip(self, lines: list[bytes]) -> list[bytes]:
        block = self.undo(Block(1, b"\n".join(lines) + b"\n"))
        return block.lines() if block else []

    def finish(self) -> Block | None:
        return None


class PrettyJson:
    """``journalctl -o json-pretty``: objects over several lines."""

    name = "journalctl -o json-pretty"

    def __init__(self) -> None:
        self._object: list[bytes] = []
        self._number = 0
        self._bytes = 0

    @staticmethod
    def begins(lines: list[bytes]) -> bool:
        return len(lines) > 1 and lines[0] == b"{" and lines[1].startswith(b'\t"')

    def undo(self, block: Block) -> Block | None:
        found: list[tuple[int, bytes]] = []
        for index, line in enumerate(block.lines()):
            if line == b"{":
                self._object, self._number, self._bytes = [], block.number(index), 0
            self._bytes += len(line)
            if self._bytes <= _ENTRY_BYTES_MAX:
                self._object.append(line)
            if line == b"}":
                document = object_in(b"".join(self._object))
                member = text_member(document)
                if member is not None and isinstance(document, dict):
                    text = text_of(document[member])
                    found += [(self._number, part) for part in text.split(b"\n")]
                self._object = []
        return block_of(found)

    def strip(self, lines: list[bytes]) -> list[bytes]:
        block = PrettyJson().undo(Block(1, b"\n".join(lines) + b"\n"))
        return block.lines() if block else []

    def finish(self) -> Block | None:
        return None
