"""Takes lines out of the log files of containerd and CRI-O, which cut long lines into parts."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.envelopes.block import LINE_BYTES_MAX, Block, block_of

_LINE = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) "
    rb"(stdout|stderr) ([FP])[^ \n]* ?"
)


class ContainerFile:
    """``2026-11-29T12:00:00.123456789Z stderr F text``; P instead of F: the line goes on."""

    name = "a container's log file"

    def __init__(self) -> None:
        self._begun: dict[bytes, tuple[int, bytes]] = {}

    @staticmethod
    def has(line: bytes) -> bool:
        return _LINE.match(line) is not None

    def undo(self, block: Block) -> Block | None:
        found: list[tuple[int, bytes]] = []
        for index, line in enumerate(block.lines()):
            number = block.number(index)
            head = _LINE.match(line)
            if head is None:
                found.append((number, line))
                continue
            first, begun = self._begun.pop(head[1], (number, b""))
            text = (begun + line[head.end() :])[:LINE_BYTES_MAX]
            if head[2] == b"P":
                self._begun[head[1]] = (first, text)
            else:
                found.append((first, text))
        return block_of(found)

    def strip(self, lines: list[bytes]) -> list[bytes]:
        block = ContainerFile().undo(Block(1, b"\n".join(lines) + b"\n"))
        return block.lines() if block else []

    def finish(self) -> Block | None:
        rest = sorted(self._begun.values())
        self._begun.clear()
        return block_of(rest)
