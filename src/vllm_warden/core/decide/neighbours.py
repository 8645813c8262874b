"""Memory that others took: whether a death is their doing, and how to fit beside them."""

from __future__ import annotations

from vllm_warden.core.decide import budget as terms
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.proposal import Proposal, Target, gib, lower
from vllm_warden.core.model import MIB

GROWTH_BYTES = 256 * MIB
"""Less than this comes and goes with a display or a monitoring program."""


def grown_bytes(case: Case) -> float:
    """What others hold more than when the engine was launched; 0 where that is not known."""
    now, total = case.figure("other_processes_bytes"), terms.total_bytes(case)
    if now is None or total is None or case.free_at_launch_bytes is None:
        return 0.0
    grown = now - (total - case.free_at_launch_bytes)
    return grown if grown > GROWTH_BYTES else 0.0


def waits_for_neighbour(case: Case) -> Proposal | None:
    """Wait at the gate where the engine had fitted without what others took since.

    None where sharing is allowed, where nobody grew, or where the settings would die anyway.
    """
    grown = grown_bytes(case)
    free, allocated = case.figure("free_bytes"), case.figure("allocated_bytes")
    total, now = terms.total_bytes(case), case.now("gpu_memory_utilization")
    if not grown or case.adapt.share_with_neighbours or free is None or allocated is None:
        return None
    if not total or not now:
        return None
    outside = terms.unbudgeted(terms.real_graphs(case)[0], terms.estimated_graphs(case))
    alone = terms.usable(free, allocated) + grown - outside
    if alone < now * total:
        return None
    holders = case.diagnosis.figures.get("other_processes", "")
    return Proposal(
        Remedy.WAIT,
        f"other processes took {gib(grown)} of the GPU's memory since the start: the same start "
        "works once that is free",
        arithmetic=(
            f"others hold {holders} (pid:bytes)",
            f"without {gib(grown)} of it {gib(alone)} are for the budget of {gib(now * total)}",
        ),
        options=("stop what holds the memory", "adapt.share_with_neighbours = true"),
    )


def beside_at_check(case: Case) -> Proposal | None:
    """Fit beside the others where sharing is allowed and the start-up check printed what is free.

    That check comes after context and NCCL, so that what it found free is H itself.
    """
    free, total = case.figure("free_bytes"), terms.total_bytes(case)
    known = case.adapt.share_with_neighbours and case.has_gpus
    if not known or free is None or not total or not case.now("gpu_memory_utilization"):
        return None
    kept = terms.margin(None)
    outside = terms.assumed_outside(case)
    safe = terms.room(free, outside, kept)
    line = (
        f"free at the start-up check {gib(free)}, less graphs {gib(outside)} and margin "
        f"{gib(kept)} = {gib(safe)} of {gib(total)}"
    )
    target = Target("gpu_memory_utilization", terms.fraction_of(safe, total), (line,), exact=False)
    proposal = lower(
        case,
        target,
        reason="others hold memory of the GPU, and fitting beside them is allowed",
        useless=(),
        options=("stop what holds the memory",),
    )
    return proposal if proposal.remedy is Remedy.RELAUNCH_WITH else None
