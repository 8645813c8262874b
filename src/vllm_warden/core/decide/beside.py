"""Fits an instance beside neighbours that stay, before its first launch, where that is allowed."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.decide import budget as terms
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.choice import SPARE_BYTES
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.proposal import gib
from vllm_warden.core.decide.request_size import request_of
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.model import Failure, GpuReading, Mode, Settings
from vllm_warden.core.plan.gate import weights_per_gpu
from vllm_warden.core.plan.memory_model.margin import UNREAD_BYTES
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec, ModelFacts


@dataclass(frozen=True, slots=True)
class Fit:
    """The utilization that fits beside the others, None where none does; ``text`` says why."""

    utilization: float | None
    text: str


def fit_beside(
    spec: InstanceSpec,
    gpus: tuple[GpuReading, ...],
    settings: tuple[Settings, Settings],
    facts: tuple[EngineFacts, ModelFacts],
) -> Fit | None:
    """By the identity with what is free now; None where sharing is not allowed or not needed.

    ``settings`` are the ones to start with and the engine's defaults. The neighbour's memory is
    taken as it is: whoever allows sharing keeps the others from growing.
    """
    sharing = spec.adapt.share_with_neighbours and spec.adapt.mode is Mode.ADAPT
    if not sharing or not gpus:
        return None
    (in_force, defaults), (engine, model) = settings, facts
    worst = min(gpus, key=lambda gpu: gpu.free_bytes)
    case = Case(
        diagnosis=Diagnosis(Failure.GPU_MEMORY_TAKEN, engine_version=engine.version),
        entry=LedgerEntry(0.0, Failure.GPU_MEMORY_TAKEN, None, was_ready=False, after_soak=False),
        asked={**defaults, **spec.engine},
        in_force=in_force,
        defaults=defaults,
        adapt=spec.adapt,
        model=model,
        engine=engine,
        gpu_total_bytes=worst.cuda_total_bytes,
        free_at_launch_bytes=worst.free_bytes,
    )
    return _fit(case, weights_per_gpu(spec, model))


def _fit(case: Case, weights: int) -> Fit | None:
    usable, now = terms.usable_by_nvml(case), case.now("gpu_memory_utilization")
    total, allowed = terms.total_bytes(case), case.range_of("gpu_memory_utilization")
    if usable is None or now is None or not total or allowed is None:
        return None
    kept = terms.margin(None) + UNREAD_BYTES
    safe = terms.room(usable, terms.assumed_outside(case), kept)
    value = min(now, terms.fraction_of(safe, total))
    needed = weights + request_of(case) + SPARE_BYTES
    text = (
        f"{gib(usable)} can be had beside the others; less graphs and margin {gib(safe)}, that is "
        f"gpu_memory_utilization {value:.4f}"
    )
    if value * total < needed:
        return Fit(None, f"{text}; weights and one request alone need {gib(needed)}")
    if value < allowed.low:
        return Fit(None, f"{text}; adapt allows no less than {allowed.low:g}")
    return Fit(value, text)
