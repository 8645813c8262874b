"""Tells from a tensor's name how vLLM deals it out over the ranks."""

from __future__ import annotations

import re
from enum import Enum, auto
from functools import lru_cache


class Role(Enum):
    """What happens to a tensor under tensor parallelism."""

    EMBEDDING = auto()
    """Cut along a padded vocabulary; first pipeline stage."""
    HEAD = auto()
    """As the embedding; last pipeline stage."""
    SPLIT = auto()
    """Cut into as many parts as there are ranks, along rows or columns."""
    KEY_VALUE = auto()
    """Cut, but not below one head of keys and values."""
    REPLICATED = auto()
    """Whole on each rank."""
    EXPERT = auto()
    """A routed expert: cut, or dealt out whole with expert parallelism."""
    STATE_SPACE = auto()
    """Mamba's input projection and convolution: cut by heads, its groups repeated."""
    FINAL = auto()
    """Replicated, and only on the last pipeline stage."""
    DRAFT = auto()
    """A layer for speculative decoding, not loaded unless asked for."""
    IGNORED = auto()
    """In the checkpoint, never in the engine."""


_OUTSIDE = re.compile(
    r"(?:^|\.)(?:vision_model|vision_tower|vision_encoder|visual|vit|image_newline|audio_tower|"
    r"multi_modal_projector|mm_projector|embed_vision|vision_adapter)(?:\.|$)"
)
_RULES: tuple[tuple[str, Role], ...] = (
    (r"rotary_emb\.inv_freq$|\.masked_bias$", Role.IGNORED),
    (r"^mtp\.|\.mtp\.|(?:^|\.)(?:eh_proj|enorm|hnorm|shared_head)\.", Role.DRAFT),
    (r"\.experts\..*(?:input_scale|weight_scale_2|_bias_scale)$", Role.REPLICATED),
    (r"\.experts\.", Role.EXPERT),
    (
        r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|tok_embeddings|embedding)\.weight",
        Role.EMBEDDING,
    ),
    (r"(?:^|\.)(?:lm_head|embed_out|output)\.", Role.HEAD),
    (r"(?:input_scale|weight_scale_2|k_scale|v_scale|g_idx)$", Role.REPLICATED),
    (r"\.(?:q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj|indexer\.\w+)\.", Role.REPLICATED),
    (r"\.(?:in_proj|conv1d)\.", Role.STATE_SPACE),
    (r"\.(?:A_log|D|dt_bias)$|\.(?:mamba|mixer|linear_attn)\.norm\.", Role.SPLIT),
    (r"\.(?:k_proj|v_proj)\.(?!.*norm)", Role.KEY_VALUE),
    (
        r"\.(?:o_proj|down_proj|out_proj|dense|dense_4h_to_h|c_proj|w2|fc2|wo)\.bias$",
        Role.REPLICATED,
    ),
    (
        (
            r"\.(?:q_proj|q_b_proj|kv_b_proj|qkv_proj|c_attn|query_key_value|Wqkv|wq|qkv|o_proj|"
            r"out_proj|dense|wo|proj|c_proj|gate_proj|up_proj|gate_up_proj|down_proj|c_fc|fc1|fc2|"
            r"w1|w2|w3|dense_h_to_4h|dense_4h_to_h|in_proj_\w+|x_proj|dt_proj)\."
        ),
        Role.SPLIT,
    ),
    (r"\.sinks$", Role.SPLIT),
    (r"\.(?:wk|wv)\.", Role.KEY_VALUE),
)
_COMPILED = tuple((re.compile(pattern), role) for pattern, role in _RULES)
_FINAL = re.compile(
    r"^(?:language_model\.)?(?:model\.|transformer\.)?(?:norm|final_layernorm|ln_f)\."
)
_HAS_LAYER = re.compile(r"\.#\.")


@lru_cache(maxsize=4096)
def role_of(name: str) -> Role:
    """The role of a tensor, its layer's number written as ``#``; REPLICATED when unknown."""
    if _FINAL.match(name):
        return Role.FINAL
    for pattern, role in _COMPILED:
        if pattern.search(name):
            if role in {Role.EMBEDDING, Role.HEAD} and (
                is_outside(name) or _HAS_LAYER.search(name)
            ):
                return Role.SPLIT if role is Role.HEAD else Role.REPLICATED
            return role
    return Role.REPLICATED


_WHOLE = re.compile(r"norm|ln_|gate|router|bias|embed|scale|sinks|zero|head")


@lru_cache(maxsize=4096)
def is_guess(name: str) -> bool:
    """True where no rule knows the name, so that it is taken as whole for want of better."""
    if is_outside(name):
        return False
    if _FINAL.match(name) or any(pattern.search(name) for pattern, _ in _COMPILED):
        return False
    return _WHOLE.search(name) is None


@lru_cache(maxsize=4096)
def is_outside(name: str) -> bool:
    """True for tensors of a vision or audio tower, which stand beside the language model."""
    return _OUTSIDE.search(name) is not None


def is_scale(name: str) -> bool:
    return "scale" in name.rpartition(".")[2]
