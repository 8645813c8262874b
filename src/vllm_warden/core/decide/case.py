"""Everything a decision rests on, gathered into one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vllm_warden.core.decide.knobs import Range, allowed_ranges, effective
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.observation import Observation
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import HostLimits
from vllm_warden.core.model import Settings
from vllm_warden.core.plan.spec import AdaptSpec, EngineFacts, ModelFacts, RestartSpec


@dataclass(frozen=True, slots=True)
class Case:
    """One death and what is known around it.

    ``in_force`` are the settings that the dead attempt ran with, ``asked`` the configured ones,
    ``defaults`` the engine's for what neither names. ``has_gpus`` False is a CPU engine.
    ``free_at_launch_bytes`` is the least that was free on one of its GPUs when it was launched;
    ``observations`` are earlier deaths, oldest first. ``extra_args`` are words of its command line
    that are no settings; ``host_gpus`` is 0 where nobody has counted the GPUs of the host.
    """

    diagnosis: Diagnosis
    entry: LedgerEntry
    asked: Settings
    in_force: Settings
    defaults: Settings = field(default_factory=dict)
    adapt: AdaptSpec = field(default_factory=AdaptSpec)
    restart: RestartSpec = field(default_factory=RestartSpec)
    model: ModelFacts = field(default_factory=ModelFacts)
    engine: EngineFacts = field(default_factory=EngineFacts)
    limits: HostLimits = field(default_factory=HostLimits)
    has_gpus: bool = True
    gpu_total_bytes: int | None = None
    free_at_launch_bytes: int | None = None
    observations: Sequence[Observation] = ()
    ledger: Sequence[LedgerEntry] = ()
    jitter_fraction: float = 0.0
    extra_args: Sequence[str] = ()
    host_gpus: int = 0

    def now(self, name: str) -> float | None:
        """The number that the dead attempt ran with."""
        return effective(self.in_force, self.defaults, self.model).get(name)

    def range_of(self, name: str) -> Range | None:
        """How far the setting may be moved; None means not at all."""
        asked = effective(self.asked, self.defaults, self.model)
        return allowed_ranges(self.adapt, asked).get(name)

    def figure(self, name: str) -> float | None:
        """A number of the diagnosis."""
        value = self.diagnosis.figures.get(name)
        return float(value) if isinstance(value, int | float) else None

    def engine_version(self) -> str | None:
        return self.diagnosis.engine_version or self.engine.version
