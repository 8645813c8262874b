"""Turns a config.json into the shape of the model; what it cannot read it names."""

from __future__ import annotations

from collections.abc import Mapping

from vllm_warden.core.plan.memory_model.config_values import (
    LAYERS_MAX,
    language_part,
    number,
    table,
    words,
)
from vllm_warden.core.plan.memory_model.layer_kinds import layer_kinds
from vllm_warden.core.plan.memory_model.model_shape import (
    Experts,
    LatentAttention,
    ModelShape,
    StateShape,
)
from vllm_warden.core.plan.memory_model.quantization import read_quantization

VISION_PARTS = ("vision_config", "vision_tower", "visual", "vit_config", "audio_config")


def read_shape(document: Mapping[str, object]) -> ModelShape:
    """Never raises: an unknown number is 0 and is named in ``unknown``."""
    config = language_part(document)
    layers = number(config, "num_hidden_layers", "n_layer", "num_layers", most=LAYERS_MAX)
    heads = number(config, "num_attention_heads", "n_head", "num_heads")
    hidden = number(config, "hidden_size", "n_embd", "d_model")
    head_dim = number(config, "head_dim") or (hidden // heads if heads else 0)
    latent = _latent(config)
    window = number(config, "sliding_window")
    names = words(document, "architectures")
    shape = ModelShape(
        architecture=names[0] if names else "",
        hidden=hidden,
        intermediate=number(config, "intermediate_size", "ffn_hidden_size", "n_inner"),
        layers=layers,
        heads=heads,
        kv_heads=number(config, "num_key_value_heads", "num_kv_heads", "multi_query_group_num")
        or (1 if config.get("multi_query") is True else heads),
        head_dim=head_dim,
        vocab=number(config, "vocab_size"),
        max_position=number(config, "max_position_embeddings", "n_positions", "max_seq_len"),
        rotary_dim=_rotary(config, head_dim, latent),
        tied_embeddings=_is_tied(document, config),
        value_bytes=_value_bytes(config),
        kinds=layer_kinds(config, layers, window),
        sliding_window=window,
        latent=latent,
        state=_state(config, hidden),
        experts=_experts(config, layers),
        quantization=read_quantization(document, config),
        draft_layers=number(config, "num_nextn_predict_layers", "num_mtp_modules"),
        has_vision=any(table(document, part) for part in VISION_PARTS),
    )
    return _with_doubts(shape, document)


def _with_doubts(shape: ModelShape, document: Mapping[str, object]) -> ModelShape:
    """Say what could not be read."""
    doubts = [
        f"config.json has no {name}"
        + (" that can be one" if name in language_part(document) else "")
        for name, value in (
            ("hidden_size", shape.hidden),
            ("num_hidden_layers", shape.layers),
            ("num_attention_heads", shape.heads),
            ("vocab_size", shape.vocab),
            ("max_position_embeddings", shape.max_position),
            ("architectures", shape.architecture),
        )
        if not value
    ]
    if not document:
        doubts = ["config.json is missing or unreadable: the KV cache and the peaks are unknown"]
    values = {name: getattr(shape, name) for name in ModelShape.__slots__}
    return ModelShape(**{**values, "unknown": tuple(doubts)})


def _is_tied(document: Mapping[str, object], config: Mapping[str, object]) -> bool:
    value = document.get("tie_word_embeddings", config.get("tie_word_embeddings"))
    return value is True


def _value_bytes(config: Mapping[str, object]) -> int:
    """VLLM runs float32 checkpoints in 16 bit unless told otherwise (``--dtype auto``)."""
    del config
    return 2


def _rotary(config: Mapping[str, object], head_dim: int, latent: LatentAttention | None) -> int:
    if latent is not None:
        return latent.rope_head_dim
    explicit = number(config, "rotary_dim")
    if explicit:
        return explicit
    fraction = config.get("partial_rotary_factor")
    if not isinstance(fraction, float):
        fraction = table(config, "rope_parameters").get("partial_rotary_factor")
    return (
        int(head_dim * fraction) if isinstance(fraction, float) and 0 < fraction < 1 else head_dim
    )


def _latent(config: Mapping[str, object]) -> LatentAttention | None:
    rank, rope = number(config, "kv_lora_rank"), number(config, "qk_rope_head_dim")
    if not (rank and rope):
        return None
    return LatentAttention(
        kv_lora_rank=rank,
        q_lora_rank=number(config, "q_lora_rank"),
        nope_head_dim=number(config, "qk_nope_head_dim"),
        rope_head_dim=rope,
        v_head_dim=number(config, "v_head_dim"),
    )


def _experts(config: Mapping[str, object], layers: int) -> Experts | None:
    count = number(
        config, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"
    )
    if count < 2:
        return None
    first = number(config, "first_k_dense_replace")
    step = number(config, "moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step") or 1
    return Experts(
        count=count,
        per_token=number(config, "num_experts_per_tok", "experts_per_token", "moe_topk", "top_k")
        or 1,
        intermediate=number(config, "moe_intermediate_size", "expert_ffn_hidden_size")
        or number(config, "intermediate_size"),
        shared=number(config, "n_shared_experts", "num_shared_experts"),
        layers=frozenset(
            index for index in range(first, layers) if (index + 1) % step == 0 or step == 1
        ),
    )


def _state(config: Mapping[str, object], hidden: int) -> StateShape | None:
    """Mamba-2 (Bamba, Granite, Nemotron-H, Falcon-H1), or gated delta net (Qwen3-Next)."""
    heads = number(config, "mamba_n_heads", "mamba_num_heads")
    precise = (
        4
        if config.get("mamba_ssm_cache_dtype", config.get("mamba_ssm_dtype")) == "float32"
        else None
    )
    if heads:
        expanded = (number(config, "mamba_expand") or 2) * hidden
        head_dim = number(config, "mamba_d_head", "mamba_head_dim") or expanded // heads
        size = number(config, "mamba_d_state", "ssm_state_size") or 128
        return StateShape(
            heads=heads,
            head_dim=head_dim,
            state_size=size,
            conv_kernel=number(config, "mamba_d_conv", "conv_kernel") or 4,
            channels=heads * head_dim,
            groups=number(config, "mamba_n_groups", "n_groups") or 1,
            group_channels=2 * size,
            value_bytes=precise,
        )
    heads, key_heads = (
        number(config, "linear_num_value_heads"),
        number(config, "linear_num_key_heads"),
    )
    if not (heads and key_heads):
        return None
    key_dim, value_dim = (
        number(config, "linear_key_head_dim"),
        number(config, "linear_value_head_dim"),
    )
    return StateShape(
        heads=heads,
        head_dim=value_dim,
        state_size=key_dim,
        conv_kernel=number(config, "linear_conv_kernel_dim") or 4,
        channels=heads * value_dim + 2 * key_heads * key_dim,
        groups=0,
        group_channels=0,
        value_bytes=precise,
    )
