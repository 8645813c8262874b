"""A number of the memory model with where it comes from and how far it may be off."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """Where a term comes from, weakest first; a sum is as good as its weakest part."""

    ASSUMED = "assumed"
    """A constant of ours that nothing of this model or host has confirmed."""
    COMPUTED = "computed"
    """A formula over what was read."""
    READ = "read"
    """Read from the model's files."""
    MEASURED = "measured"
    """Printed by the engine, or seen by NVML, on an earlier attempt."""


_STRENGTH = {source: strength for strength, source in enumerate(Source)}


@dataclass(frozen=True, slots=True)
class Term:
    """So many bytes of one GPU; the true value is expected within ``uncertainty_bytes``."""

    name: str
    bytes: int
    source: Source
    uncertainty_bytes: int = 0
    note: str = ""


def measured(name: str, size_bytes: float, note: str) -> Term:
    """A value that an earlier attempt printed, to two decimals of a GiB."""
    return Term(name, int(size_bytes), Source.MEASURED, 10 << 20, note)


def weakest(sources: Iterable[Source]) -> Source:
    return min(sources, key=_STRENGTH.__getitem__, default=Source.COMPUTED)


def joint_uncertainty_bytes(terms: Iterable[Term]) -> int:
    """Independent errors add as squares."""
    return math.isqrt(sum(term.uncertainty_bytes**2 for term in terms))
