"""Cuts the bytes of a log into blocks of whole lines, in memory that a line cannot grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

LINE_BYTES_MAX = 1 << 20
"""Of one physical line so much is kept: an envelope may write a line of 48 KiB as numbers."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each with its line end, and their numbers.

    ``numbers`` is None where they count up from ``first``. ``dropped_bytes`` are missing at the
    end of the block's last line.
    """

    first: int
    data: bytes
    dropped_bytes: int = 0
    numbers: Sequence[int] | None = None

    def number(self, index: int) -> int:
        return self.first + index if self.numbers is None else self.numbers[index]

    def lines(self) -> list[bytes]:
        return self.data.split(b"\n")[:-1]


def block_of(lines: Sequence[tuple[int, bytes]]) -> Block | None:
    """A block of numbered lines; None where there is none. Line ends inside become blanks."""
    if not lines:
        return None
    texts = [text.replace(b"\n", b" ") for _, text in lines]
    return Block(
        lines[0][0], b"\n".join(texts) + b"\n", numbers=tuple(number for number, _ in lines)
    )


def blocks(chunks: Iterable[bytes]) -> Iterator[Block]:
    """Blocks about as large as the chunks; a line without its end at the end gets one."""
    rest = b""
    dropped = 0
    number = 1
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            room = max(0, LINE_BYTES_MAX - len(rest))
            rest += chunk[:room]
            dropped += max(0, len(chunk) - room)
            continue
        begin = 0
        if dropped:
            begin = chunk.find(b"\n") + 1
            yield Block(number, rest + b"\n", dropped + begin - 1)
            number += 1
            rest, dropped = b"", 0
        data = rest + chunk[begin:cut]
        rest = chunk[cut:]
        if data:
            yield Block(number, data)
            number += data.count(b"\n")
    if rest:
        yield Block(number, rest + b"\n", dropped)
