"""The form of a catalogue row: how a failure is recognised, and what that does not prove."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from vllm_warden.core.diagnose.detect import Detector
from vllm_warden.core.model import Failure, Phase, Role, Site


class Weight(IntEnum):
    """Which cause decides when several were found: the smallest, and of equals the earliest."""

    COUNTED = 0
    """A counted fact (the kernel's oom_kill counter); outranks all text."""
    ROOT = 1
    """A named failure in the engine's own words."""
    DEATH = 2
    """A process that vanished; it leaves no words of its own, only those of others."""
    RELAYED = 3
    """What another process was told of the failure, where the root itself is missing."""
    COMMUNICATION = 4
    """Errors that a dying rank causes in the others as well as by themselves."""
    HINT = 5
    """Says that something died, not what of."""


@dataclass(frozen=True, slots=True)
class Signature:
    """One mechanism of failure. It observes and never names a remedy.

    ``phase`` and ``site`` override what the call stack says; None takes the stack's (and for the
    phase, failing that, where the log was). ``caution`` says what a match does not prove. ``usual``
    is the phase of the mechanism where neither stack nor log tells one. ``asked`` is True where
    the engine says that it was told to stop: no failure, unless somebody who watched it had not
    asked. ``announces`` is True for a consequence that is told of failures only: where nothing
    else was found, something failed that the log does not show. ``of_whole_log`` is True for
    what is concluded from silence: an excerpt may have lost what was said.

    ``passing`` is True for what goes away by itself often enough for one more try, ``in_company``
    for what proves nothing unless something died as well, ``in_silence`` for what proves nothing
    unless the engine said it again and again while requests ran and no token was made. ``since``
    and ``until`` are the first and the last of the sampled releases of vLLM that can print it
    (None: no limit is known); the true limits may lie a release apart.
    """

    id: str
    failure: Failure
    detect: Detector
    summary: str
    caution: str
    role: Role = Role.CAUSE
    weight: Weight = Weight.ROOT
    phase: Phase | None = None
    site: Site | None = None
    likely: bool = False
    passing: bool = False
    in_company: bool = False
    in_silence: bool = False
    since: str | None = None
    until: str | None = None
    asked: bool = False
    announces: bool = False
    usual: Phase | None = None
    of_whole_log: bool = False
