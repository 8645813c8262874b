"""Stands in for headers that cannot be read: tensors from config.json, scaled to a known total."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vllm_warden.core.plan.memory_model.checkpoint import TensorGroup
from vllm_warden.core.plan.memory_model.model_shape import LayerKind, ModelShape

SCALE_MIN = 1 / 8
"""Two bits where config.json describes sixteen: what is smaller is no size of these layers."""


def explains(shape: ModelShape, total_bytes: int) -> bool:
    """Whether that many bytes can be the weights that config.json describes."""
    return _scale(tuple(_groups(shape)), total_bytes) is not None


def tensors_of(shape: ModelShape, total_bytes: int) -> tuple[TensorGroup, ...]:
    """The matrices of the usual layers; their bytes sum up to ``total_bytes`` where that is known.

    Embeddings stay in 16 bit; only the layers are scaled, since it is they that are quantised.
    """
    groups = tuple(_groups(shape))
    factor = _scale(groups, total_bytes)
    if factor is None:
        return groups
    return tuple(
        replace(group, bytes=int(group.bytes * factor)) if group.layers else group
        for group in groups
    )


def _scale(groups: tuple[TensorGroup, ...], total_bytes: int) -> float | None:
    """By how much the layers are larger than described; None where the total is none of theirs."""
    outside = sum(group.total_bytes for group in groups if not group.layers)
    inside = sum(group.total_bytes for group in groups if group.layers)
    if not inside or total_bytes < outside + inside * SCALE_MIN:
        return None
    return (total_bytes - outside) / inside


def _groups(shape: ModelShape) -> Iterator[TensorGroup]:
    quantization = shape.quantization
    bits = quantization.bits if quantization else 8 * shape.value_bytes
    yield _matrix("model.embed_tokens.weight", shape.vocab, shape.hidden)
    if not shape.tied_embeddings:
        yield _matrix("lm_head.weight", shape.vocab, shape.hidden)
    layers: dict[tuple[str, int, int, int], list[int]] = {}
    for layer in range(shape.layers):
        kind = shape.kinds[layer] if shape.kinds else LayerKind.FULL
        for matrix in (*_mixer(shape, kind), *_feed_forward(shape, layer)):
            layers.setdefault(matrix, []).append(layer)
    for (name, rows, columns, count), found in layers.items():
        size = rows * columns * bits // 8
        full = f"model.layers.#.{name}.weight"
        yield TensorGroup(full, "U8", (rows, columns), size, count, tuple(found))


def _matrix(name: str, rows: int, columns: int) -> TensorGroup:
    return TensorGroup(name, "BF16", (rows, columns), 2 * rows * columns)


def _mixer(shape: ModelShape, kind: LayerKind) -> Iterator[tuple[str, int, int, int]]:
    hidden, latent, state = shape.hidden, shape.latent, shape.state
    if kind is LayerKind.STATE and state is not None:
        inner = state.heads * state.head_dim
        rows = inner + state.channels + state.groups * state.group_channels + state.heads
        yield "mamba.in_proj", rows, hidden, 1
        yield "mamba.out_proj", hidden, inner, 1
    elif latent is not None:
        query = shape.heads * (latent.nope_head_dim + latent.rope_head_dim)
        if latent.q_lora_rank:
            yield "self_attn.q_a_proj", latent.q_lora_rank, hidden, 1
        yield "self_attn.q_b_proj", query, latent.q_lora_rank or hidden, 1
        yield "self_attn.kv_a_proj_with_mqa", latent.kv_lora_rank + latent.rope_head_dim, hidden, 1
        values = shape.heads * (latent.nope_head_dim + latent.v_head_dim)
        yield "self_attn.kv_b_proj", values, latent.kv_lora_rank, 1
        yield "self_attn.o_proj", hidden, shape.heads * latent.v_head_dim, 1
    elif kind in {LayerKind.FULL, LayerKind.SLIDING}:
        yield "self_attn.q_proj", shape.heads * shape.head_dim, hidden, 1
        yield "self_attn.k_proj", shape.kv_heads * shape.head_dim, hidden, 1
        yield "self_attn.v_proj", shape.kv_heads * shape.head_dim, hidden, 1
        yield "self_attn.o_proj", hidden, shape.heads * shape.head_dim, 1


def _feed_forward(shape: ModelShape, layer: int) -> Iterator[tuple[str, int, int, int]]:
    hidden, experts = shape.hidden, shape.experts
    if experts is None or layer not in experts.layers:
        yield from _three("mlp", hidden, shape.intermediate, 1)
        return
    yield "mlp.gate", experts.count, hidden, 1
    yield from _three("mlp.experts.#", hidden, experts.intermediate, experts.count)
    if experts.shared:
        yield from _three("mlp.shared_experts", hidden, experts.intermediate * experts.shared, 1)


def _three(name: str, hidden: int, inner: int, count: int) -> Iterator[tuple[str, int, int, int]]:
    yield f"{name}.gate_proj", inner, hidden, count
    yield f"{name}.up_proj", inner, hidden, count
    yield f"{name}.down_proj", hidden, inner, count
