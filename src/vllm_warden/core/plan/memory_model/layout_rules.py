"""The reasons why vLLM refuses to spread a model in a given way.

Each rule is one of vLLM's own checks (0.8 to 0.33), with its numbers filled in.
"""

from __future__ import annotations

from collections.abc import Iterator

from vllm_warden.core.plan.memory_model.layout import Layout
from vllm_warden.core.plan.memory_model.model_shape import Experts, ModelShape, Quantization
from vllm_warden.core.plan.memory_model.rank_weights import VOCABULARY_PADDING, padded

MARLIN_PART = 128
"""min_thread_k of Marlin (marlin_utils.py); its min_thread_n, 64, follows from it."""
MARLIN = frozenset({"gptq", "gptq_marlin", "awq", "awq_marlin", "compressed-tensors"})
FOUR_BIT = 4


def refusals(shape: ModelShape, layout: Layout, gpus: int) -> tuple[str, ...]:
    """Why the layout cannot be; empty when nothing speaks against it."""
    if layout.gpus > gpus:
        return (f"needs {layout.gpus} GPUs, there are {gpus}",)
    if not shape.is_known:
        return ()
    return (
        *_pipeline(shape, layout),
        *_heads(shape, layout.tensor),
        *_state(shape, layout.tensor),
        *_vocabulary(shape, layout.tensor),
        *_experts(shape, layout),
        *_matrices(shape, layout),
    )


def _pipeline(shape: ModelShape, layout: Layout) -> Iterator[str]:
    if layout.pipeline > shape.layers:
        yield f"{shape.layers} layers cannot fill {layout.pipeline} stages"


def _heads(shape: ModelShape, tensor: int) -> Iterator[str]:
    if shape.heads % tensor:
        yield f"{shape.heads} attention heads do not divide by {tensor}"
    if shape.latent is not None or not shape.kv_heads:
        return
    heads = shape.kv_heads
    if heads % tensor and (tensor < heads or tensor % heads):
        yield (
            f"{heads} KV heads do not divide by {tensor}"
            if tensor < heads
            else f"{heads} KV heads cannot be repeated evenly on {tensor} ranks"
        )


def _state(shape: ModelShape, tensor: int) -> Iterator[str]:
    state = shape.state
    if state is None:
        return
    if state.heads % tensor:
        yield f"{state.heads} heads of the state do not divide by {tensor}"
    if state.groups > 1 and state.groups % tensor:
        yield f"{state.groups} groups of the state do not divide by {tensor}"


def _vocabulary(shape: ModelShape, tensor: int) -> Iterator[str]:
    rows = padded(shape.vocab, VOCABULARY_PADDING)
    if rows % tensor:
        yield f"the vocabulary, padded to {rows}, does not divide by {tensor}"


def _experts(shape: ModelShape, layout: Layout) -> Iterator[str]:
    experts = shape.experts
    if layout.expert_parallel and experts is None:
        yield "expert parallelism needs a model with experts"
        return
    if experts is None:
        return
    shards = layout.expert_shards
    if layout.expert_parallel:
        if shards > experts.count:
            yield f"{experts.count} experts cannot fill {shards} ranks"
        return
    inner = experts.intermediate
    if inner % shards:
        yield f"experts of size {inner} do not divide by {shards}"
    elif shape.quantization is not None:
        part = inner // shards
        reason = _cut_refused(part, shape.quantization)
        if reason:
            yield (
                f"experts: {inner}/{shards} = {part} {reason}; "
                "--enable-expert-parallel keeps them whole"
            )


def _matrices(shape: ModelShape, layout: Layout) -> Iterator[str]:
    """Feed-forward layers and the output of attention are cut by TP alone."""
    for name, size in _cut_sizes(shape):
        if size % layout.tensor:
            yield f"{name}: {size} does not divide by {layout.tensor}"
        elif layout.tensor > 1 and shape.quantization is not None:
            part = size // layout.tensor
            reason = _cut_refused(part, shape.quantization)
            if reason:
                yield f"{name}: {size}/{layout.tensor} = {part} {reason}"


def _cut_sizes(shape: ModelShape) -> Iterator[tuple[str, int]]:
    experts = shape.experts
    if shape.intermediate and not _all_layers(shape, experts):
        yield "feed-forward", shape.intermediate
    if experts is not None and experts.shared:
        yield "shared experts", experts.intermediate * experts.shared
    if shape.latent is None and shape.heads and shape.head_dim and _quantises_attention(shape):
        yield "attention", shape.heads * shape.head_dim


def _all_layers(shape: ModelShape, experts: Experts | None) -> bool:
    return experts is not None and len(experts.layers) == shape.layers


def _quantises_attention(shape: ModelShape) -> bool:
    return shape.quantization is not None and shape.quantization.method != "mxfp4"


def _cut_refused(part: int, quantization: Quantization) -> str:
    """Why a part of that size cannot be, in a word; empty when it can."""
    rows, columns = quantization.block
    block = max(rows, columns)
    if block and part % block:
        return f"is no multiple of {block} (FP8 blocks)"
    group = quantization.group_size
    if quantization.method == "mxfp4":
        return ""  # padded to what the kernels want
    if group > 0 and part % group:
        return f"is no multiple of the group size {group}"
    if quantization.method in MARLIN and quantization.bits == FOUR_BIT and part % MARLIN_PART:
        return f"is no multiple of {MARLIN_PART} (Marlin kernels)"
    return ""
