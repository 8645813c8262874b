"""Makes UTF-8 of a log in UTF-16, as Windows tools save it, and takes the byte order mark off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

_UTF8_MARK = b"\xef\xbb\xbf"
_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_LOOK_AT = 64


def as_utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text in UTF-8; whatever is not UTF-16 passes as it is."""
    rest = iter(chunks)
    first = b""
    for chunk in rest:
        first += chunk
        if len(first) >= _LOOK_AT:
            break
    encoding = _encoding(first)
    if encoding is None:
        yield from (chunk for chunk in chain([first.removeprefix(_UTF8_MARK)], rest) if chunk)
        return
    mark = 2 if first[:2] in _MARKS else 0
    pending = b""
    for chunk in chain([first[mark:]], rest):
        data = pending + chunk
        end = len(data) - len(data) % 2
        if end and 0xD8 <= data[end - (1 if encoding == "utf-16-le" else 2)] <= 0xDB:
            end -= 2  # the first half of a pair
        pending = data[end:]
        yield data[:end].decode(encoding, "replace").encode("utf-8", "replace")


def _encoding(first: bytes) -> str | None:
    if first[:2] in _MARKS:
        return _MARKS[first[:2]]
    begin = first[:_LOOK_AT]
    if len(begin) < 16:
        return None
    even, odd = begin[::2], begin[1::2]
    if not any(odd) and 0 not in even:
        return "utf-16-le"
    return "utf-16-be" if not any(even) and 0 not in odd else None
