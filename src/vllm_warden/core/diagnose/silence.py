"""Tells whether an engine fell silent while requests ran, from what it says of its rates."""

from __future__ import annotations

import re

STATES = ("Engine ", "Avg prompt throughput", "No available shared memory broadcast block")
"""How the lines begin that this looks at: vLLM's rates every 10 s, and a wait of a rank for
another of 60 s. An idle engine waits like that too, and so do loading and compiling."""

WAITS_MIN = 5
"""So many waits in a row, with requests running and no token made, are a hang."""

_RATES = re.compile(
    r"Avg generation throughput: (\d{1,9}(?:\.\d{1,6})?) tokens/s, Running: (\d{1,9}) reqs"
)


class Silence:
    """Fed the messages that begin with one of STATES, in order."""

    def __init__(self) -> None:
        self._running = False
        self._waits = 0

    @property
    def lasts(self) -> bool:
        return self._waits >= WAITS_MIN

    def feed(self, message: str) -> None:
        if message.startswith(STATES[-1]):
            self._waits += self._running
        elif found := _RATES.search(message, 0, 400):
            self._running = int(found[2]) > 0
            if float(found[1]) > 0 or not self._running:
                self._waits = 0
