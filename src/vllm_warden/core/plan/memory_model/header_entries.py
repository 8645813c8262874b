"""Counts the tensors named in safetensors headers, fast enough for a hundred thousand experts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from vllm_warden.core.plan.memory_model.checkpoint import Entry

SIZE_MAX = 1 << 48
DIMENSIONS_MAX = 64
"""No array of numpy 2 has more, and no tensor of a checkpoint nearly as many."""
_OFFSETS = re.compile(rb',\s*"data_offsets"\s*:\s*\[[\d,\s]*\]')
_EXPERT = re.compile(rb"\.experts\.\d+")
_EXPERT_TEXT = re.compile(r"\.experts\.\d+(?=\.)")


def count_entries(headers: Iterable[bytes]) -> Mapping[Entry, int]:
    """Equal entries of all headers counted. Raises ValueError for a header that is no JSON.

    Without offsets and numbers of experts most entries are the same text: these are counted as
    text, and only the different ones are parsed (62 layers of 256 experts: 0.2 s instead of 2).
    No header is kept once its entries are counted.
    """
    parsed: dict[bytes, tuple[Entry, ...]] = {}
    counted: Counter[Entry] = Counter()
    for header in headers:
        counted.update(_count(header, parsed))
    return counted


def _count(header: bytes, parsed: dict[bytes, tuple[Entry, ...]]) -> Counter[Entry]:
    """The entries of one header; ``parsed`` are the texts that were met before."""
    bare = _EXPERT.sub(b".experts.#", _OFFSETS.sub(b"", header.strip()))
    texts = Counter(bare.removeprefix(b"{").removesuffix(b"}}").split(b"},"))
    counted: Counter[Entry] = Counter()
    try:
        for text, count in texts.items():
            if text not in parsed:
                parsed[text] = tuple(_entries(json.loads(b"{" + text + b"}}")))
            for entry in parsed[text]:
                counted[entry] += count
    except (ValueError, RecursionError):
        return Counter(_entries(json.loads(header)))
    return counted


def _entries(header: object) -> Iterator[Entry]:
    if not isinstance(header, dict):
        raise ValueError("a header is a JSON object")  # noqa: TRY004 - as for text that is no JSON
    for name, value in header.items():
        match value:
            case {"dtype": str(dtype), "shape": list(shape)} if _is_shape(shape):
                yield Entry(_EXPERT_TEXT.sub(".experts.#", name), dtype, tuple(shape))


def _is_shape(shape: list[object]) -> bool:
    return len(shape) <= DIMENSIONS_MAX and all(map(_is_size, shape))


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < SIZE_MAX
