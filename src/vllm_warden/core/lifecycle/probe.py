"""How far the built-in load probe of an attempt has come."""

from __future__ import annotations

from enum import Enum, auto

ANSWER_TOKENS = 4
"""Of each of its requests: they decode together, and are still over soon."""


class Probe(Enum):
    DUE = auto()
    """Not sent yet, or broken off for real requests."""
    SENT = auto()
    """Its requests are on their way: a death now is the probe's, and within the soak."""
    OVER = auto()
    """Answered, failed or withheld: this attempt is not probed again."""
