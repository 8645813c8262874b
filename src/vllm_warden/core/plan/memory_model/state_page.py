"""Bytes of the state that a Mamba or delta-net layer keeps for each sequence."""

from __future__ import annotations

from vllm_warden.core.plan.memory_model.engine_options import EngineOptions
from vllm_warden.core.plan.memory_model.model_shape import ModelShape


def state_page_bytes(shape: ModelShape, options: EngineOptions) -> int:
    """Convolution window and matrices of one layer on one rank.

    ``mamba2_state_shape`` of vLLM 0.10 to 0.33: channels and heads are cut by TP; groups that do
    not divide are repeated, so that each rank has those of its heads.
    """
    state = shape.state
    if state is None:
        return 0
    tensor = options.layout.tensor
    groups = state.groups if not state.groups or state.groups % tensor == 0 else tensor
    channels = (state.channels + groups * state.group_channels) // tensor
    window = channels * (state.conv_kernel - 1 + options.speculative_tokens) * shape.value_bytes
    matrices = max(1, state.heads // tensor) * state.head_dim * state.state_size
    return window + matrices * (state.value_bytes or shape.value_bytes)
