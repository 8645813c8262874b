"""What the warden would do about a death that it only reads about (``diagnose FILE``)."""

from __future__ import annotations

import math

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.policy import decide
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.model import Failure, Phase, Settings
from vllm_warden.core.plan.command_line import version_of
from vllm_warden.core.plan.defaults import engine_defaults
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, EngineFacts

BUDGET_MAX = (0.95, 0.98)
"""How far a person may go who has the GPUs alone: the first that is more than it was."""
KV_BYTES_FROM_BUDGET_SINCE = (0, 20)
"""From vLLM 0.20 on a CPU engine takes VLLM_CPU_KVCACHE_SPACE for its kv_cache_memory_bytes."""


def advise(diagnosis: Diagnosis, evidence: Evidence) -> Decision:
    """Decide as the daemon does, on the settings that the log names or a person has given.

    Nobody has set bounds here, and a person reads the price: each knob may go as far as it helps.
    """
    total = diagnosis.figures.get("total_bytes")
    has_gpus = diagnosis.failure is not Failure.HOST_OUT_OF_MEMORY
    engine = EngineFacts(version=diagnosis.engine_version)
    defaults = engine_defaults(
        evidence.settings,
        engine,
        ("unknown",) if has_gpus else (),
        int(total) if isinstance(total, int | float) else None,
    )
    defaults |= _told(diagnosis, engine, defaults)
    asked = {**defaults, **evidence.settings}
    return decide(
        Case(
            diagnosis=diagnosis,
            entry=LedgerEntry(
                0.0,
                diagnosis.failure,
                diagnosis.phase,
                was_ready=diagnosis.phase is Phase.SERVING,
                after_soak=False,
            ),
            asked=evidence.settings,
            in_force=evidence.settings,
            defaults=defaults,
            adapt=AdaptSpec(knobs=_bounds(diagnosis, asked), min_concurrency_fraction=0.0),
            engine=engine,
            has_gpus=has_gpus,
        )
    )


def _told(
    diagnosis: Diagnosis, engine: EngineFacts, defaults: dict[str, int | float]
) -> dict[str, int | float]:
    """Settings that are not among the arguments, and that the failure's own text names."""
    told: dict[str, int | float] = {}
    for name in ("max_num_seqs", "max_num_batched_tokens"):
        # the dummy run has as many requests as the lower of both
        rows = diagnosis.figures.get("dummy_requests")
        if isinstance(rows, int) and rows > defaults[name]:
            told[name] = rows
    length = diagnosis.figures.get("max_model_len")
    if isinstance(length, int):
        told["max_model_len"] = length
    budget, version = diagnosis.figures.get("available_kv_bytes"), version_of(engine)
    fixed = version is not None and version >= KV_BYTES_FROM_BUDGET_SINCE
    if diagnosis.failure is Failure.HOST_OUT_OF_MEMORY and fixed and isinstance(budget, int):
        told["kv_cache_memory_bytes"] = budget
    return told


def _bounds(diagnosis: Diagnosis, asked: Settings) -> dict[str, Bounds]:
    bounds = {
        "max_model_len": Bounds(min=1),
        "max_num_seqs": Bounds(min=1),
        "max_num_batched_tokens": Bounds(min=1),
        "gpu_memory_utilization": Bounds(min=0.05),
        "kv_cache_memory_bytes": Bounds(min=1),
    }
    utilization = asked.get("gpu_memory_utilization")
    # a length that fits is certain where vLLM printed it; how much budget is free is not known
    if "estimated_max_model_len" not in diagnosis.figures and isinstance(utilization, int | float):
        most = _free_fraction(diagnosis)
        larger = min(next((value for value in BUDGET_MAX if value > utilization), 0.0), most)
        if diagnosis.failure is Failure.KV_CACHE_TOO_SMALL and larger > utilization:
            bounds["gpu_memory_utilization"] = Bounds(min=0.05, max=larger)
    return bounds


def _free_fraction(diagnosis: Diagnosis) -> float:
    """The largest budget that passes the check at the start, where the log says what was free."""
    free, total = (diagnosis.figures.get(name) for name in ("free_bytes", "total_bytes"))
    if not isinstance(free, int | float) or not isinstance(total, int | float) or total <= 0:
        return 1.0
    return math.floor(100 * free / total) / 100
