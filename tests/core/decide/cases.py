"""Deaths to decide about, with the figures that their logs print."""

from __future__ import annotations

from typing import Any

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.model import GIB, MIB, Failure, Phase, Site
from vllm_warden.core.plan.spec import ModelFacts

TOTAL = 97_887 * MIB
ASKED = {
    "max_num_seqs": 1024,
    "max_num_batched_tokens": 8192,
    "gpu_memory_utilization": 0.95,
    "max_model_len": 131072,
}
TORCH_OOM = {
    "tried_bytes": int(1.53 * GIB),
    "free_bytes": int(0.5 * GIB),
    "total_bytes": TOTAL,
    "allocated_bytes": int(92 * GIB),
}


def case(
    failure: Failure,
    phase: Phase | None = None,
    site: Site | None = None,
    figures: dict[str, int | float | str] | None = None,
    **more: Any,
) -> Case:
    asked = more.pop("asked", ASKED)
    entry = more.pop(
        "entry", LedgerEntry(1000.0, failure, phase, was_ready=False, after_soak=False)
    )
    diagnosis = Diagnosis(
        failure,
        phase,
        site,
        figures=figures or {},
        engine_version=more.pop("engine_version", "0.15.1"),
        incomplete=more.pop("incomplete", False),
    )
    return Case(
        diagnosis=diagnosis,
        entry=entry,
        asked=asked,
        in_force=more.pop("in_force", asked),
        model=more.pop("model", ModelFacts(vocab_size=200_064)),
        **more,
    )


def oom(phase: Phase, site: Site | None, **figures: float | str) -> Case:
    return case(Failure.GPU_OUT_OF_MEMORY, phase, site, {**TORCH_OOM, **figures})
