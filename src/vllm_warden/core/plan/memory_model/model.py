"""A model as the memory model knows it: its shape, and what its checkpoint holds."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.plan.memory_model.checkpoint import Checkpoint
from vllm_warden.core.plan.memory_model.model_shape import ModelShape


@dataclass(frozen=True, slots=True)
class Model:
    """A model as far as its files told."""

    shape: ModelShape
    checkpoint: Checkpoint
