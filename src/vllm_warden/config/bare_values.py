"""Finds values that no program can be given and no JSON answer can carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite

from vllm_warden.config.wording import Fault, Path

DEPTH_MAX = 32
"""Tables within tables; vLLM's own options need five (compilation_config.pass_config)."""


def bare_faults(path: Path, value: object) -> Iterator[Fault]:
    """One fault a value, which is not repeated: it may be a secret, or command a terminal."""
    pending = [(path, value)]
    while pending:
        place, each = pending.pop()
        reason = _reason(place, each)
        if reason is not None:
            yield Fault(place, None, reason)
        elif isinstance(each, Mapping):
            pending.extend(((*place, str(key)), inner) for key, inner in each.items())
        elif isinstance(each, list):
            pending.extend(((*place, position), inner) for position, inner in enumerate(each))


def _reason(place: Path, value: object) -> str | None:
    if len(place) > DEPTH_MAX:
        return f"it is nested deeper than {DEPTH_MAX} tables"
    for word in (*place[-1:], value):
        if isinstance(word, str) and "\0" in word:
            return "it holds a NUL character, which ends the words of a command line"
        if isinstance(word, str) and any("\ud800" <= each <= "\udfff" for each in word):
            return "it holds half a character, which cannot be written anywhere"
    if isinstance(value, float) and not isfinite(value):
        return "it is no finite number"
    return None
