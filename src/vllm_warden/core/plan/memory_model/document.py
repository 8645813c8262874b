"""Writes a plan as the JSON object that ``vllm-warden plan --json`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_warden.core.plan.memory_model.layouts import LayoutVerdict
from vllm_warden.core.plan.memory_model.limits import Limits
from vllm_warden.core.plan.memory_model.term import Term
from vllm_warden.core.plan.memory_model.verdict import Check, MemoryPlan, RankPlan
from vllm_warden.core.plan.memory_model.weights import weights_known


def plan_document(
    plan: MemoryPlan, limits: Limits, layouts: Sequence[LayoutVerdict]
) -> dict[str, object]:
    """Bytes are whole numbers of one GPU; ``worst_stage`` is the stage that decides."""
    setup = plan.setup
    weights = weights_known(setup.model.checkpoint, setup.model.shape)
    return {
        "fits": plan.fits,
        "architecture": setup.model.shape.architecture or None,
        "unknown": list(setup.model.shape.unknown),
        "weights": {
            "source": weights.source.value,
            "estimated": weights.is_estimated,
            "total_bytes": weights.total_bytes,
            "files": setup.model.checkpoint.files,
        },
        "engine": {"version": setup.era.name, "extrapolated": not setup.era.is_known},
        "gpu_total_bytes": setup.gpu.total_bytes,
        "layout": layout_name(plan),
        "assumed": list(setup.options.assumed),
        "settings": {
            "max_model_len": setup.options.max_model_len,
            "max_num_seqs": setup.options.max_num_seqs,
            "max_num_batched_tokens": setup.options.max_num_batched_tokens,
            "gpu_memory_utilization": setup.options.utilization,
        },
        "stages": [_rank(rank) for rank in plan.ranks],
        "worst_stage": plan.worst.rank.stage.number,
        "limits": {
            "gpu_memory_utilization": limits.utilization,
            "max_model_len": limits.max_model_len,
            "max_num_seqs": limits.max_num_seqs,
        },
        "layouts": [_layout(verdict) for verdict in layouts],
    }


def layout_name(plan: MemoryPlan) -> str:
    return plan.setup.options.layout.name


def _rank(plan: RankPlan) -> dict[str, object]:
    rank = plan.rank
    terms = (
        rank.outside,
        rank.weights,
        rank.inside,
        rank.activations,
        rank.sampler,
        rank.graphs,
        rank.graphs_budgeted,
        rank.kv,
    )
    return {
        "stage": rank.stage.number,
        "layers": [rank.stage.layers.start, rank.stage.layers.stop],
        "requested_bytes": rank.requested_bytes,
        "terms": [_term(term) for term in terms],
        "checks": [_check(check) for check in plan.checks],
        "kv_tokens": plan.kv_tokens,
        "kv_bytes_per_token": rank.kv_needs.bytes_per_token if rank.kv_needs else None,
        "request_bytes": plan.request_bytes,
        "concurrent_requests": None if plan.concurrency is None else round(plan.concurrency, 2),
    }


def _term(term: Term) -> dict[str, object]:
    return {
        "name": term.name,
        "bytes": term.bytes,
        "uncertainty_bytes": term.uncertainty_bytes,
        "source": term.source.value,
        "note": term.note,
    }


def _check(check: Check) -> dict[str, object]:
    return {
        "wall": check.wall.name.lower(),
        "meaning": check.wall.value,
        "holds": check.holds,
        "spare_bytes": check.spare_bytes,
        "certain": check.is_certain,
    }


def _layout(verdict: LayoutVerdict) -> dict[str, object]:
    layout, plan = verdict.layout, verdict.plan
    wall = plan.worst.first_wall if plan else None
    return {
        "name": layout.name,
        "tensor_parallel_size": layout.tensor,
        "pipeline_parallel_size": layout.pipeline,
        "data_parallel_size": layout.data,
        "enable_expert_parallel": layout.expert_parallel,
        "gpus": layout.gpus,
        "valid": verdict.is_valid,
        "fits": verdict.works,
        "weights_bytes": verdict.weights_bytes,
        "reasons": list(verdict.refused) or ([verdict_reason(verdict)] if wall else []),
        "kv_tokens": plan.worst.kv_tokens if plan else None,
    }


def verdict_reason(verdict: LayoutVerdict) -> str:
    """Why the layout does not fit, in one line; empty when it does."""
    if verdict.refused:
        return "; ".join(verdict.refused)
    wall = verdict.plan.worst.first_wall if verdict.plan else None
    if wall is None or verdict.plan is None:
        return ""
    short = -wall.spare_bytes / (1 << 30)
    total = verdict.plan.setup.gpu.total_bytes / (1 << 30)
    weights = (verdict.weights_bytes or 0) / (1 << 30)
    if wall.wall.name == "WEIGHTS":
        return f"{weights:.1f} GiB of weights on a GPU of {total:.1f} GiB"
    return f"{wall.wall.value}: {short:.1f} GiB short"
