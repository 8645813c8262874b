"""The weights of one rank: the checkpoint's tensors dealt out, plus what loading adds."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.plan.memory_model.checkpoint import Checkpoint, WeightSource
from vllm_warden.core.plan.memory_model.layout import stage_layers
from vllm_warden.core.plan.memory_model.load_extras import (
    latent_copies,
    mxfp4_padding,
    rotary_table,
)
from vllm_warden.core.plan.memory_model.model_shape import ModelShape
from vllm_warden.core.plan.memory_model.rank_weights import Load, stage_weights
from vllm_warden.core.plan.memory_model.roles import is_guess
from vllm_warden.core.plan.memory_model.synthetic_tensors import explains, tensors_of
from vllm_warden.core.plan.memory_model.term import (
    Source,
    Term,
    joint_uncertainty_bytes,
    weakest,
)

UNCERTAINTY = {
    WeightSource.HEADERS: 0.003,
    WeightSource.INDEX: 0.02,
    WeightSource.FILES: 0.02,
    WeightSource.CONFIG: 0.05,
    WeightSource.NOTHING: 1.0,
}
"""Fraction of the weights by which each source has been seen to miss what engines loaded."""


@dataclass(frozen=True, slots=True)
class Known:
    """Where the sizes of the weights really come from, and what they add up to."""

    source: WeightSource
    total_bytes: int

    @property
    def is_estimated(self) -> bool:
        return self.source is not WeightSource.HEADERS


def weights_known(checkpoint: Checkpoint, shape: ModelShape) -> Known:
    """Sizes of files that cannot be the weights of this model are not taken for them."""
    total = checkpoint.total_bytes
    if checkpoint.groups or not shape.is_known or explains(shape, total):
        return Known(checkpoint.source, total)
    described = sum(group.total_bytes for group in tensors_of(shape, 0))
    return Known(WeightSource.CONFIG, described)


@dataclass(frozen=True, slots=True)
class Stage:
    """The layers of one pipeline stage and the weights of each of its ranks."""

    number: int
    layers: range
    weights: Term


def rank_weights(
    checkpoint: Checkpoint, shape: ModelShape, load: Load, max_model_len: int = 0
) -> tuple[Stage, ...]:
    """What every rank of each pipeline stage holds once the model is loaded."""
    source = weights_known(checkpoint, shape).source
    fraction = UNCERTAINTY[source]
    if not shape.is_known:
        share = checkpoint.total_bytes // (load.layout.tensor * load.layout.pipeline)
        note = f"{checkpoint.source.value}, in equal parts: the model's shape is not known"
        term = Term("weights", share, Source.ASSUMED, share // 5, note)
        stages = stage_layers(shape.layers or load.layout.pipeline, load.layout.pipeline)
        return tuple(Stage(number, layers, term) for number, layers in enumerate(stages))
    guessed = guessed_bytes(checkpoint, load)
    groups = checkpoint.groups or tensors_of(shape, checkpoint.total_bytes)
    is_read = bool(checkpoint.groups)
    return tuple(
        Stage(
            stage.stage,
            stage.layers,
            _sum(
                Term(
                    "weights",
                    stage.bytes,
                    Source.READ if is_read else Source.COMPUTED,
                    int(stage.bytes * fraction) + guessed,
                    f"{source.value}, names partly unknown" if guessed else source.value,
                ),
                rotary_table(shape, max_model_len),
                latent_copies(shape, load.layout, stage.layers),
                mxfp4_padding(groups, shape, load.layout, stage.layers),
            ),
        )
        for stage in stage_weights(groups, shape, load)
    )


def guessed_bytes(checkpoint: Checkpoint, load: Load) -> int:
    """What would not be on a rank if the matrices that no rule knows were cut after all."""
    unknown = sum(
        group.total_bytes
        for group in checkpoint.groups
        if len(group.shape) > 1 and is_guess(group.name)
    )
    return unknown - unknown // load.layout.tensor


def _sum(first: Term, *others: Term | None) -> Term:
    """One term for all of them; the note names what was added."""
    added = [term for term in others if term is not None and term.bytes]
    parts = [first, *added]
    note = " + ".join([first.note, *(term.name for term in added)])
    return Term(
        first.name,
        sum(term.bytes for term in parts),
        weakest(term.source for term in parts if term.bytes > first.bytes // 50),
        joint_uncertainty_bytes(parts),
        note,
    )
