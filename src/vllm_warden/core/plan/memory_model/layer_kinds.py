"""Tells for each layer what it keeps of a sequence: all tokens, a window, a state, or nothing."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_warden.core.plan.memory_model.config_values import number, numbers, words
from vllm_warden.core.plan.memory_model.model_shape import LayerKind

BY_NAME = {
    "full_attention": LayerKind.FULL,
    "attention": LayerKind.FULL,
    "global": LayerKind.FULL,
    "hybrid": LayerKind.STATE,
    "sliding_attention": LayerKind.SLIDING,
    "chunked_attention": LayerKind.SLIDING,
    "local": LayerKind.SLIDING,
    "linear_attention": LayerKind.STATE,
    "mamba": LayerKind.STATE,
    "mamba2": LayerKind.STATE,
    "moe": LayerKind.NONE,
    "mlp": LayerKind.NONE,
}
BY_LETTER = {
    "M": LayerKind.STATE,
    "*": LayerKind.FULL,
    "-": LayerKind.NONE,
    "E": LayerKind.NONE,
}
"""Nemotron-H writes its layers as one word."""


def layer_kinds(
    config: Mapping[str, object], layers: int, sliding_window: int
) -> tuple[LayerKind, ...]:
    """One kind a layer, in order; FULL where nothing says otherwise."""
    named = _named(config, layers)
    if named:
        return named
    attention = numbers(config, "attn_layer_indices")
    if attention:
        return tuple(
            LayerKind.FULL if index in attention else LayerKind.STATE for index in range(layers)
        )
    every = number(config, "full_attention_interval", "sliding_window_pattern")
    if every and number(config, "linear_num_value_heads"):
        return _every(layers, every, LayerKind.STATE)
    if every and sliding_window:
        return _every(layers, every, LayerKind.SLIDING)
    cross = numbers(config, "cross_attention_layers")
    is_windowed = sliding_window and config.get("use_sliding_window", True) is True
    usual = LayerKind.SLIDING if is_windowed else LayerKind.FULL
    return tuple(LayerKind.NONE if index in cross else usual for index in range(layers))


def _named(config: Mapping[str, object], layers: int) -> tuple[LayerKind, ...]:
    """One word a layer, or one letter a layer; nothing where neither is there."""
    named = words(config, "layer_types", "layers_block_type")
    if len(named) == layers:
        return tuple(BY_NAME.get(name, LayerKind.FULL) for name in named)
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str) and len(pattern) == layers:
        return tuple(BY_LETTER.get(letter, LayerKind.FULL) for letter in pattern)
    return ()


def _every(layers: int, every: int, otherwise: LayerKind) -> tuple[LayerKind, ...]:
    return tuple(
        LayerKind.FULL if (index + 1) % every == 0 else otherwise for index in range(layers)
    )
