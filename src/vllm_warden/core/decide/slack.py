"""Tells at ready time whether a full batch will fit: start-up never runs one after the KV cache.

The slack is H - R - (G - Ghat) with H = free at launch less the CUDA context, before any request
has come. Below zero the first full batch dies although the start was healthy.
"""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.decide import budget as terms
from vllm_warden.core.decide.budget import fraction_of
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Change
from vllm_warden.core.decide.proposal import gib
from vllm_warden.core.model import GIB, GpuReading, Mode
from vllm_warden.core.plan.memory_model.margin import UNREAD_BYTES

SLACK_LEAST_BYTES = 0.3 * GIB
"""Under this a warning is due: the margin without which the identity is not used either."""


@dataclass(frozen=True, slots=True)
class Slack:
    """What is left beside the budget, in bytes; ``kept_bytes`` is what a plan would leave.

    ``text`` is a warning with the next plan, empty where none is due; ``changes`` are that plan.
    """

    slack_bytes: float
    kept_bytes: float
    text: str
    arithmetic: tuple[str, ...]
    changes: tuple[Change, ...] = ()

    @property
    def is_short(self) -> bool:
        return self.slack_bytes < SLACK_LEAST_BYTES


def slack_at_ready(case: Case) -> Slack | None:
    """None where the terms are not known: no GPU figures, or a KV cache of a fixed size."""
    total, now = terms.total_bytes(case), case.now("gpu_memory_utilization")
    if not case.has_gpus or case.free_at_launch_bytes is None or not total or not now:
        return None
    usable = terms.usable_by_nvml(case)
    if usable is None or case.now("kv_cache_memory_bytes") is not None:
        return None
    outside = _outside(case)
    slack = terms.room(usable, outside, now * total)
    found = terms.budget_of(case)
    kept = terms.margin(None if found is None else found.peak) + UNREAD_BYTES
    lines = (
        (
            f"free at launch {gib(case.free_at_launch_bytes)} - CUDA context and peers "
            f"{gib(terms.outside_bytes(case))} = {gib(usable)}"
        ),
        (
            f"minus the budget {now:g} x {gib(total)} = {gib(now * total)}, minus CUDA graphs "
            f"outside it {gib(outside)}: {gib(slack)} left for a full batch"
        ),
    )
    bare = Slack(slack, kept, "", lines)
    return _with_plan(case, bare, fraction_of(usable - outside - kept, total))


def cuda_total_bytes(gpu: GpuReading) -> int:
    """What torch calls the total, of which vLLM takes its share: without the driver's part.

    NVML's total holds that part (637 MiB of a board with 97,887 MiB), and neither its free memory
    nor any process does. Holders of unknown size leave it out of account: it is then too small, so
    that nobody is warned by a guess.
    """
    if gpu.reserved_bytes:
        return gpu.cuda_total_bytes
    held = sum(holder.used_bytes or 0 for holder in gpu.holders)
    return min(gpu.total_bytes, gpu.free_bytes + held)


def _outside(case: Case) -> float:
    """G - Ghat as printed; 0 where the log does not tell G, so that nobody is warned by a guess."""
    graphs = case.figure("graphs_bytes")
    return 0.0 if graphs is None else terms.unbudgeted(graphs, terms.estimated_graphs(case))


def _with_plan(case: Case, bare: Slack, value: float) -> Slack:
    if not bare.is_short:
        return bare
    now = case.in_force.get("gpu_memory_utilization")
    allowed = case.range_of("gpu_memory_utilization")
    short, size = bare.slack_bytes < 0, gib(abs(bare.slack_bytes))
    end = "will die" if short else "may die"
    text = (
        f"the start is healthy, but the first full batch {end} for want of GPU memory: "
        f"beside the budget {f'{size} are missing' if short else f'only {size} are left'}"
    )
    plan = f"gpu_memory_utilization {case.now('gpu_memory_utilization'):g} -> {value:g}"
    changes: tuple[Change, ...] = ()
    if case.adapt.mode is not Mode.ADAPT:
        text += f'; mode is "{case.adapt.mode}"; "adapt" would hold with {plan}'
    elif allowed is None or value < allowed.low:
        bound = "it may not be changed" if allowed is None else f"no less than {allowed.low:g}"
        text += f"; {plan} would hold, but the bounds forbid it ({bound})"
    else:
        text += f"; it would hold with {plan}"
        changes = (Change("gpu_memory_utilization", now, value),)
    return Slack(bare.slack_bytes, bare.kept_bytes, text, bare.arithmetic, changes)
