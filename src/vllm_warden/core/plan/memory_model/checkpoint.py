"""The tensors of a checkpoint, many alike counted together, and how they became known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Bits of one element by safetensors' names of types (safetensors 0.6)."""
LAYER_DIGITS_MAX = 5


class WeightSource(StrEnum):
    """What the sizes of the weights were taken from, best first."""

    HEADERS = "safetensors headers"
    INDEX = "metadata.total_size of the index"
    FILES = "sizes of the weight files"
    CONFIG = "config.json alone"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors alike: one in each of ``layers``, and ``count`` experts in each of them.

    ``name`` has ``#`` for the numbers of layer and expert; ``layers`` is empty for a tensor that
    stands outside of them; ``bytes`` are those of one tensor.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    count: int = 1
    layers: tuple[int, ...] = ()

    @property
    def total_bytes(self) -> int:
        return self.bytes * self.count * max(1, len(self.layers))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """``groups`` are empty unless headers were read."""

    source: WeightSource
    total_bytes: int = 0
    groups: tuple[TensorGroup, ...] = ()
    files: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor as a header names it, the number of its expert taken out."""

    name: str
    dtype: str
    shape: tuple[int, ...] = field(default=())


def group_tensors(counted: Mapping[Entry, int]) -> tuple[TensorGroup, ...]:
    """Put the same tensor of all layers together; types that nobody knows are left out."""
    layers: dict[tuple[str, str, tuple[int, ...], int], list[int]] = {}
    for entry, count in counted.items():
        if entry.dtype in BITS:
            head, layer, tail = split_layer(entry.name)
            name = entry.name if layer is None else f"{head}#{tail}"
            found = layers.setdefault((name, entry.dtype, entry.shape, count), [])
            if layer is not None:
                found.append(layer)
    return tuple(
        TensorGroup(
            name, dtype, shape, math.prod(shape) * BITS[dtype] // 8, count, tuple(sorted(found))
        )
        for (name, dtype, shape, count), found in layers.items()
    )


def split_layer(name: str) -> tuple[str, int | None, str]:
    """Text before the first number, the number, the text behind it."""
    parts = name.split(".")
    for position, part in enumerate(parts):
        if part.isdecimal() and len(part) <= LAYER_DIGITS_MAX:
            head = ".".join(parts[:position])
            return f"{head}." if head else "", int(part), "." + ".".join(parts[position + 1 :])
    return name, None, ""
