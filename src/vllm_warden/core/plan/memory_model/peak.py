"""The transient peak that vLLM profiles: a forward pass of a full batch, or sampling."""

from __future__ import annotations

from vllm_warden.core.plan.memory_model.engine_options import EngineOptions
from vllm_warden.core.plan.memory_model.era import Era
from vllm_warden.core.plan.memory_model.model_shape import ModelShape
from vllm_warden.core.plan.memory_model.term import Source, Term

CPU_ROWS_MANY = 512
CPU_BYTES_MANY, CPU_BYTES_FEW, CPU_BYTES_SPREAD = 24, 22, 2
"""Bytes an entry of vLLM 0.32.0 on a CPU, measured at 64 to 2048 rows: 21.0 to 24.0."""
ACTIVATION_UNCERTAINTY = 0.4
ACTIVATION_LEAST_BYTES = 128 << 20
"""Workspaces of matrix libraries and of compiled code that do not grow with the batch."""


def sampler_peak(shape: ModelShape, options: EngineOptions, era: Era) -> Term:
    """Bytes x rows x vocabulary; the logits of all requests are gathered on every rank.

    Rows are min(max_num_seqs, max_num_batched_tokens), as in ``_dummy_sampler_run``.
    """
    entries = sampler_rows(options) * shape.vocab
    each = era.sampler_bytes
    spread = max(era.sampler_most - each, each - era.sampler_least)
    if era.is_cpu:
        each = CPU_BYTES_MANY if sampler_rows(options) >= CPU_ROWS_MANY else CPU_BYTES_FEW
        spread = CPU_BYTES_SPREAD
    value = int(each * entries)
    note = f"{each:g} x {sampler_rows(options)} x {shape.vocab}"
    return Term("sampler peak", value, Source.COMPUTED, int(spread * entries), note)


def sampler_rows(options: EngineOptions) -> int:
    return min(options.max_num_seqs, options.max_num_batched_tokens)


def activation_peak(shape: ModelShape, options: EngineOptions) -> Term:
    """Tensors of the widest moment of one layer, for max_num_batched_tokens.

    A log shows 2.53 GiB for Llama-3.1-8B at TP 2 and 40,000 tokens; this gives 2.64.
    """
    size = options.max_num_batched_tokens * token_width_bytes(shape, options)
    size += ACTIVATION_LEAST_BYTES
    note = f"{options.max_num_batched_tokens} batched tokens"
    doubt = int(size * ACTIVATION_UNCERTAINTY)
    return Term("activation peak", size, Source.ASSUMED, doubt, note)


def token_width_bytes(shape: ModelShape, options: EngineOptions) -> int:
    """Bytes alive for one token: the residual stream beside attention, or beside the MLP."""
    tensor, width = options.layout.tensor, shape.value_bytes
    stream = 3 * shape.hidden
    heads = shape.heads // tensor or 1
    key_values = 2 * max(1, shape.kv_heads // tensor)
    attention = (2 * heads + key_values) * shape.head_dim
    feed_forward = 3 * shape.intermediate // tensor
    experts = 0
    if shape.experts is not None:
        cut = 1 if options.layout.expert_parallel else options.layout.expert_shards
        inner = shape.experts.intermediate // cut
        experts = shape.hidden + shape.experts.per_token * (max(2 * inner, shape.hidden) + inner)
        experts += 3 * inner * shape.experts.shared
        if not shape.experts.layers - set(range(shape.layers)) and len(shape.experts.layers) == (
            shape.layers
        ):
            feed_forward = 0
    return width * (stream + max(attention, feed_forward, experts))
