"""Adds the terms up as vLLM does: what the budget leaves for the KV cache of each GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from vllm_warden.core.plan.memory_model.engine_options import EngineOptions
from vllm_warden.core.plan.memory_model.era import Budgeted, Era
from vllm_warden.core.plan.memory_model.kv_cache import KvNeeds, kv_needs
from vllm_warden.core.plan.memory_model.measured import Measured, instead
from vllm_warden.core.plan.memory_model.measured_peak import carried_peak
from vllm_warden.core.plan.memory_model.model import Model
from vllm_warden.core.plan.memory_model.overhead import context, graphs, libraries
from vllm_warden.core.plan.memory_model.peak import activation_peak, sampler_peak
from vllm_warden.core.plan.memory_model.rank_weights import Load
from vllm_warden.core.plan.memory_model.term import Source, Term, joint_uncertainty_bytes, weakest
from vllm_warden.core.plan.memory_model.weights import Stage, rank_weights


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """One GPU: its size, and what others hold of it."""

    total_bytes: int
    others_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RankEstimate:
    """One rank of one pipeline stage. ``peak`` is the larger of activations and sampler.

    ``outside`` is not part of utilization x total, ``inside`` is. ``kv`` may be negative.
    ``kv_needs`` None: the shape of the model is not known.
    """

    stage: Stage
    outside: Term
    inside: Term
    activations: Term
    sampler: Term
    peak: Term
    graphs: Term
    graphs_budgeted: Term
    kv: Term
    requested_bytes: int
    kv_needs: KvNeeds | None = field(default=None)

    @property
    def weights(self) -> Term:
        return self.stage.weights


@dataclass(frozen=True, slots=True)
class Setup:
    """All that an estimate rests on; what an earlier attempt measured replaces assumptions."""

    model: Model
    options: EngineOptions
    gpu: GpuMemory
    era: Era
    measured: Measured = field(default_factory=Measured)


def estimate_ranks(setup: Setup) -> tuple[RankEstimate, ...]:
    """One rank of each pipeline stage, the fullest of its stage."""
    options = setup.options
    load = Load(options.layout, options.quantization, with_drafts=options.speculative_tokens > 0)
    model = setup.model
    stages = rank_weights(model.checkpoint, model.shape, load, options.max_model_len)
    return tuple(_rank(setup, stage, samples=stage is stages[-1]) for stage in stages)


def _rank(setup: Setup, stage: Stage, *, samples: bool) -> RankEstimate:
    options, era, measured = setup.options, setup.era, setup.measured
    shape, gpu = setup.model.shape, setup.gpu
    weights = instead(_offloaded(stage.weights, options), measured.weights_bytes)
    activations = activation_peak(shape, options)
    sampler = sampler_peak(shape, options, era) if samples else Term("sampler peak", 0, Source.READ)
    activations, sampler, has_libraries = carried_peak(activations, sampler, options, measured)
    peak = max(activations, sampler, key=lambda term: term.bytes)
    inside = _inside(peak, has_libraries=has_libraries)
    outside = instead(context(options), measured.context_bytes)
    real = instead(graphs(shape, options, era, stage.layers), measured.graphs_bytes)
    budgeted = instead(_budgeted(real, era), measured.graphs_estimated_bytes)
    requested = math.ceil(options.utilization * gpu.total_bytes)
    charged = [weights, inside, peak, budgeted]
    if era.is_nccl_inside:
        charged.append(outside)
    left = requested - sum(term.bytes for term in charged)
    kv = Term(
        "KV cache", left, weakest(t.source for t in charged), joint_uncertainty_bytes(charged)
    )
    if options.kv_cache_memory_bytes is not None:
        kv = Term("KV cache", options.kv_cache_memory_bytes, Source.READ, 0, "as asked")
    return RankEstimate(
        stage=Stage(stage.number, stage.layers, weights),
        outside=outside,
        inside=inside,
        activations=activations,
        sampler=sampler,
        peak=peak,
        graphs=real,
        graphs_budgeted=budgeted,
        kv=kv,
        requested_bytes=requested,
        kv_needs=kv_needs(shape, options, stage.layers),
    )


def _offloaded(weights: Term, options: EngineOptions) -> Term:
    if not options.offload_bytes:
        return weights
    left = max(0, weights.bytes - options.offload_bytes)
    note = f"{weights.note}, less cpu_offload_gb"
    return Term(weights.name, left, weights.source, weights.uncertainty_bytes, note)


def _budgeted(real: Term, era: Era) -> Term:
    """Ghat: what vLLM itself keeps free for graphs; where unsure, as if it kept nothing."""
    name = "CUDA graphs, budgeted"
    if era.graphs is Budgeted.NO:
        return Term(name, 0, Source.COMPUTED, 0, f"vLLM {era.name} has no budget for them")
    if era.graphs is Budgeted.UNSURE:
        doubt = real.bytes
        return Term(name, 0, Source.ASSUMED, doubt, "budgeted by one of the two runners only")
    return Term(name, real.bytes, real.source, real.uncertainty_bytes, "since vLLM 0.20")


def _inside(peak: Term, *, has_libraries: bool) -> Term:
    """Libraries; those of a measured peak are in it."""
    name = libraries().name
    return Term(name, 0, peak.source, 0, "in the peak") if has_libraries else libraries()
