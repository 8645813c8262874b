"""Says in words how a catalogue row recognises its failure."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_warden.core.diagnose.detect import (
    HOST_ALLOCATION,
    Allocation,
    Counted,
    Prints,
    RaisedUnder,
    Raises,
)
from vllm_warden.core.diagnose.literals import literals
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Phase, Site

_SHOWN = 6
"""Wordings that are listed; a row may know two dozen."""


def places_of(row: Signature) -> tuple[tuple[Phase | None, Site | None], ...]:
    """Phase and site of what the row can answer; None where the log or its stack tells."""
    detect = row.detect
    phases: tuple[Phase | None, ...] = (row.phase,)
    sites: tuple[Site | None, ...] = (row.site,)
    if isinstance(detect, Allocation):
        phases = _in_order(detect.phases) or phases
        sites = tuple(sorted(detect.sites)) or sites
    elif isinstance(detect, RaisedUnder) and row.phase is None and _tells(detect.phases):
        phases = _in_order(detect.phases)
    return tuple((phase, site) for phase in phases for site in sites)


def recognised(row: Signature) -> str:
    """One clause, without a full stop."""
    detect = row.detect
    if isinstance(detect, Counted):
        words = "a fact beside the log: an exit status, a counter or a line of the kernel"
    elif isinstance(detect, Prints):
        place = "somewhere in" if detect.within else "at the begin of"
        words = f"{place} a line: {_listed(detect.begins)}"
    elif isinstance(detect, Allocation):
        words = _allocation(detect)
    else:
        words = _exception(detect)
    if row.in_company:
        words += "; only together with a death"
    if row.in_silence:
        words += "; only again and again, while requests run and no token is made"
    return words


def _allocation(detect: Allocation) -> str:
    whose = "the host's" if detect.pattern is HOST_ALLOCATION else "the GPU's"
    if detect.nowhere:
        return f"an exception that says that {whose} memory ran out, without a call stack"
    return (
        f"an exception that says that {whose} memory ran out; its call stack tells "
        "the phase and what the memory was for"
    )


def _exception(detect: Raises | RaisedUnder) -> str:
    kinds = (detect.kind,) if isinstance(detect, Raises) else detect.kinds
    named = [kind for kind in kinds if kind]
    words = f"an exception ({', '.join(named[:_SHOWN])})" if named else "an exception"
    texts = _wordings(detect.pattern.pattern) if detect.pattern is not None else ()
    if isinstance(detect, Raises) and detect.hint:
        texts = (detect.hint,)
    if texts:
        words += f" with words such as {_listed(texts)}"
    if isinstance(detect, RaisedUnder):
        if detect.functions:
            words += f", raised under {_listed(sorted(detect.functions), quote='')}"
        if _tells(detect.phases):
            words += f", in {', '.join(_in_order(detect.phases))}"
    return words


def _wordings(pattern: str) -> tuple[str, ...]:
    """Dots stand where the first letter may be of either case."""
    return tuple(f"...{text}" if f"]{text[:8]}" in pattern else text for text in literals(pattern))


def _listed(texts: Iterable[str], quote: str = '"') -> str:
    every = [f"{quote}{' '.join(text.split())}{quote}" for text in texts]
    shown = " or ".join(every[:_SHOWN])
    return shown if len(every) <= _SHOWN else f"{shown} or {len(every) - _SHOWN} more wordings"


def _tells(phases: frozenset[Phase]) -> bool:
    return 0 < len(phases) < len(Phase) / 2


def _in_order(phases: Iterable[Phase]) -> tuple[Phase, ...]:
    return tuple(phase for phase in Phase if phase in frozenset(phases))
