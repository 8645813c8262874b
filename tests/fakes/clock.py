"""A clock that moves only when a test says so."""

from __future__ import annotations


class FakeClock:
    """Satisfies ``daemon.ports.Clock``."""

    def __init__(self, now_seconds: float = 1000.0, jitter_fraction: float = 0.5) -> None:
        self._now_seconds = now_seconds
        self._jitter_fraction = jitter_fraction

    def advance(self, seconds: float) -> None:
        self._now_seconds += seconds

    def now_seconds(self) -> float:
        return self._now_seconds

    def wall_seconds(self) -> float:
        return 1_800_000_000.0 + self._now_seconds

    def boot_id(self) -> str:
        return "b0070000-0000-4000-8000-000000000000"

    def jitter_fraction(self) -> float:
        return self._jitter_fraction
