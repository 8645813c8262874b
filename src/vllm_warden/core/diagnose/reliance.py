"""Says which texts and functions of vLLM the diagnosis relies on, and which a version should have.

``seen_in`` holds in which releases each of them was found; what was never found in vLLM's own
source is torch's, the kernel's or another library's word, and nothing is expected of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.catalogue.seen_in import RELEASES, SEEN
from vllm_warden.core.diagnose.detect import Counted, Prints, RaisedUnder, Raises
from vllm_warden.core.diagnose.literals import literals
from vllm_warden.core.diagnose.phases import MARKERS
from vllm_warden.core.diagnose.places import GROUPS
from vllm_warden.core.diagnose.signature import Signature

_NUMBERS = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?")


class Kind(Enum):
    """What something is in the engine's source."""

    TEXT = "text"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class Reliance:
    """A row (or phase marker, or group of functions) and what it looks for; one is enough."""

    owner: str
    kind: Kind
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """What a version should have and has not. ``whole``: nothing of what the owner needs is left.

    An owner that is wholly gone recognises nothing any more; others know one wording less.
    """

    owner: str
    kind: Kind
    names: tuple[str, ...]
    whole: bool


def relied_on() -> tuple[Reliance, ...]:
    """Everything, rows first, in their order."""
    rows = [one for row in SIGNATURES for one in _of_row(row)]
    markers = [Reliance(f"marker {text!r}", Kind.TEXT, (text,)) for text in MARKERS]
    places = [
        Reliance(f"functions of {place}", Kind.FUNCTION, tuple(sorted(names)))
        for place, names in GROUPS.items()
    ]
    return (*rows, *markers, *places)


def names_relied_on() -> tuple[list[str], list[str]]:
    """All texts, and all functions, each once: the question to an installed engine."""
    everything = relied_on()
    texts = {name for one in everything if one.kind is Kind.TEXT for name in one.names}
    functions = {name for one in everything if one.kind is Kind.FUNCTION for name in one.names}
    return sorted(texts), sorted(functions)


def gone(version: str, absent: Collection[str]) -> tuple[Gone, ...]:
    """What this version should have, of the names that its source was found to lack."""
    return tuple(_gone(version, absent))


def is_newer_than_known(version: str) -> bool:
    """True for a version behind the newest whose source was looked at."""
    return numbers(version) > numbers(RELEASES[-1])


def numbers(version: str) -> tuple[int, ...]:
    """Three numbers to compare versions by; zeros for what is no version."""
    found = _NUMBERS.match(version)
    return tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)


def _gone(version: str, absent: Collection[str]) -> Iterator[Gone]:
    for one in relied_on():
        expected = [name for name in one.names if _is_expected(version, name)]
        lost = tuple(name for name in expected if name in absent)
        if lost:
            yield Gone(one.owner, one.kind, lost, whole=len(lost) == len(expected))


def _is_expected(version: str, name: str) -> bool:
    if name not in SEEN:
        return False
    first, last = SEEN[name]
    is_current = last == RELEASES[-1]
    wanted = numbers(version)
    return numbers(first) <= wanted and (is_current or wanted <= numbers(last))


def _of_row(row: Signature) -> Iterator[Reliance]:
    detect = row.detect
    if isinstance(detect, Counted):
        return
    if isinstance(detect, Prints):
        yield Reliance(row.id, Kind.TEXT, detect.begins)
    elif isinstance(detect, Raises) and detect.hint:
        yield Reliance(row.id, Kind.TEXT, (detect.hint,))
    elif isinstance(detect, RaisedUnder) and detect.functions:
        yield Reliance(row.id, Kind.FUNCTION, tuple(sorted(detect.functions)))
    texts = literals(detect.pattern.pattern) if detect.pattern is not None else ()
    if texts:
        yield Reliance(row.id, Kind.TEXT, texts)
