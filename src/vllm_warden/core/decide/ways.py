"""Adds to a decision that ends the service the smallest changes with which it would work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeGuard

from vllm_warden.core.decide import budget as terms
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Decision, Remedy
from vllm_warden.core.decide.knobs import MOVABLE, number
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.model import PHASES_AFTER_KV, Failure, Phase
from vllm_warden.core.plan.memory_model.measured import BYTES_MAX, Measured, measured_from_figures
from vllm_warden.core.plan.memory_model.smallest_changes import (
    Answer,
    Question,
    in_words,
    none_in_words,
    smallest_changes,
)
from vllm_warden.core.plan.memory_model.verdict import Wall
from vllm_warden.core.plan.memory_model.ways_out import WayOut
from vllm_warden.core.plan.spec import EngineFacts

COUNT_MAX = 1 << 31
ENDS = frozenset({Remedy.GIVE_UP, Remedy.HOLD})
COMPUTED = (
    *("gpu_memory_utilization", "max_model_len", "max_num_seqs", "kv_cache_dtype"),
    *("tensor_parallel_size", "cpu_offload_gb", "max_num_batched_tokens"),
)
"""What was computed needs no hint without a number beside it."""


def with_ways_out(case: Case, decision: Decision) -> Decision:
    """The same decision; its options begin with what was computed, where that is certain."""
    if decision.remedy not in ENDS or not case.has_gpus:
        return decision
    wall, total = _wall(case.diagnosis), terms.total_bytes(case)
    if wall is None or total is None or not 0 < total < BYTES_MAX:
        return decision
    answer = smallest_changes(_question(case, int(total)), wall)
    if answer is None:
        return decision
    others = [option for option in decision.options if not any(name in option for name in COMPUTED)]
    return replace(decision, options=(*_lines(case, answer), *others))


def _wall(diagnosis: Diagnosis) -> Wall | None:
    """What the engine ran into; None where memory was not the reason, or the phase is unknown."""
    if diagnosis.failure is Failure.KV_CACHE_TOO_SMALL:
        return Wall.SHORT_CACHE
    if diagnosis.failure is Failure.GPU_MEMORY_TAKEN:
        return Wall.TAKEN
    if diagnosis.failure is not Failure.GPU_OUT_OF_MEMORY:
        return None
    if diagnosis.phase in (Phase.INIT_DEVICE, Phase.LOAD):
        return Wall.WEIGHTS
    if diagnosis.phase is Phase.PROFILE:
        return Wall.PEAK
    is_late = diagnosis.phase in PHASES_AFTER_KV or diagnosis.phase is Phase.SERVING
    return Wall.AFTER_CACHE if is_late else None


def _question(case: Case, total_bytes: int) -> Question:
    free = case.figure("free_bytes") if case.diagnosis.failure is Failure.GPU_MEMORY_TAKEN else None
    if free is None:
        free = case.free_at_launch_bytes
    return Question(
        settings={**case.defaults, **case.in_force},
        extra_args=case.extra_args,
        model=case.model,
        engine=EngineFacts(version=case.engine_version(), is_cpu=case.engine.is_cpu),
        gpu_total_bytes=total_bytes,
        gpus=case.host_gpus,
        others_bytes=int(total_bytes - free) if free is not None and 0 <= free < total_bytes else 0,
        measured=_measured(case, total_bytes),
    )


def _measured(case: Case, total_bytes: int) -> Measured:
    """By the figures of this very death."""
    utilization, sequences = case.now("gpu_memory_utilization"), case.now("max_num_seqs")
    tokens = case.now("max_num_batched_tokens")
    if utilization is None or not _is_count(sequences) or not _is_count(tokens):
        return Measured()
    requested = utilization * total_bytes
    return measured_from_figures(case.diagnosis.figures, requested, int(sequences), int(tokens))


def _is_count(value: float | None) -> TypeGuard[float]:
    return value is not None and 1 <= value < COUNT_MAX


def _lines(case: Case, answer: Answer) -> Iterator[str]:
    if not answer.ways:
        yield none_in_words(answer)
    for way in answer.ways:
        one = _as_printed(case, way)
        yield f"{in_words(one)}{_bound(case, one)}"


def _as_printed(case: Case, way: WayOut) -> WayOut:
    """The longest context that vLLM printed wins over a longer one that we computed."""
    printed, computed = case.figure("estimated_max_model_len"), way.settings.get("max_model_len")
    if printed is None or not isinstance(computed, int) or not 0 < printed < computed:
        return way
    return WayOut(f"max_model_len {printed:.0f}", {"max_model_len": int(printed)})


def _bound(case: Case, way: WayOut) -> str:
    """Which bound of the operator's has to move first; empty for none."""
    for name, value in way.settings.items():
        wanted = number(value)
        if name not in MOVABLE or wanted is None:
            continue
        allowed = case.range_of(name)
        if allowed is None or wanted < allowed.low:
            return f" (not allowed so far: adapt.{name} = {{ min = {value} }})"
        if wanted > allowed.high:
            return f" (not allowed so far: adapt.{name} = {{ max = {value} }})"
    return ""
