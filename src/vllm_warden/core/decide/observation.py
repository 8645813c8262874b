"""What earlier attempts of an instance taught about memory, kept for the next decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_warden.core.model import PHASES_AFTER_KV, Failure, Figures, Phase

OBSERVATIONS_MAX = 24
MEMORY_FAILURES = frozenset({Failure.GPU_OUT_OF_MEMORY, Failure.KV_CACHE_TOO_SMALL})
DAY_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Observation:
    """One death for want of GPU memory: with which settings, where, and what it printed.

    ``changed`` tells whether the answer moved a setting. Unlike the ledger of failures these
    outlive a soak: what was measured stays true.
    """

    at_seconds: float
    failure: Failure
    phase: Phase | None
    settings: Mapping[str, float]
    figures: Figures = field(default_factory=dict)
    changed: bool = False

    def figure(self, name: str) -> float | None:
        value = self.figures.get(name)
        return float(value) if isinstance(value, int | float) else None

    @property
    def is_beyond_budget(self) -> bool:
        """The budget left too little room: a larger one would die as well."""
        late = self.phase in PHASES_AFTER_KV or self.phase is Phase.SERVING
        return self.failure is Failure.GPU_OUT_OF_MEMORY and late
