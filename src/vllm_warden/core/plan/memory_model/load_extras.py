"""What loading makes beside the checkpoint's own tensors: tables, repacked and padded weights."""

from __future__ import annotations

from vllm_warden.core.plan.memory_model.checkpoint import TensorGroup
from vllm_warden.core.plan.memory_model.layout import Layout
from vllm_warden.core.plan.memory_model.model_shape import LayerKind, ModelShape
from vllm_warden.core.plan.memory_model.rank_weights import padded
from vllm_warden.core.plan.memory_model.term import Source, Term

MXFP4_HIDDEN_MULTIPLE = 256
MXFP4_INNER_MULTIPLE = 128
"""Marlin and TRTLLM kernels round MXFP4 experts up to these (vLLM 0.32, oracle/mxfp4.py)."""


def rotary_table(shape: ModelShape, max_model_len: int) -> Term | None:
    """One table of sines and cosines, shared by the layers: positions x rotary size.

    With it the 14.9889 GiB that vLLM prints for Llama-3.1-8B are met to the last digit.
    """
    positions = max(shape.max_position, max_model_len)
    if not positions or all(kind is LayerKind.STATE for kind in shape.kinds):
        return None
    size = positions * shape.rotary_dim * shape.value_bytes
    return Term("rotary table", size, Source.COMPUTED, size // 2)


def latent_copies(shape: ModelShape, layout: Layout, layers: range) -> Term | None:
    """MLA keeps kv_b_proj once more in 16 bit, as W_UK and W_UV (vLLM 0.8 to 0.33)."""
    latent = shape.latent
    if latent is None:
        return None
    per_head = (latent.nope_head_dim + latent.v_head_dim) * latent.kv_lora_rank
    size = shape.heads // layout.tensor * per_head * shape.value_bytes * len(layers)
    return Term("MLA copies of kv_b_proj", size, Source.COMPUTED, size // 10)


def mxfp4_padding(
    groups: tuple[TensorGroup, ...], shape: ModelShape, layout: Layout, layers: range
) -> Term | None:
    """Experts in MXFP4 are rounded up to what the kernels want; which kernel runs is not known."""
    experts, quantization = shape.experts, shape.quantization
    if experts is None or quantization is None or quantization.method != "mxfp4":
        return None
    cut = 1 if layout.expert_parallel else layout.expert_shards
    inner = -(-experts.intermediate // cut)
    hidden = padded(shape.hidden, MXFP4_HIDDEN_MULTIPLE)
    growth = hidden * padded(inner, MXFP4_INNER_MULTIPLE) / (shape.hidden * inner) - 1
    stored = sum(
        group.bytes * group.count * sum(layer in layers for layer in group.layers)
        for group in groups
        if ".experts." in group.name
    )
    size = int(stored * growth) // layout.expert_shards
    return Term(
        "MXFP4 padding", size, Source.ASSUMED, size, "depends on the kernel that vLLM picks"
    )
