"""Published definition of Llama-3.2-11B-Vision: a vision tower and cross attention layers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.model_directories.definitions import Tensor, bf16, biased, norms

CROSS = frozenset({3, 8, 13, 18, 23, 28, 33, 38})


def llama_32_11b_vision() -> Iterator[Tensor]:
    yield from _vision()
    yield from biased("multi_modal_projector", 4096, 7680)
    text = "language_model.model"
    yield from bf16(f"{text}.embed_tokens", 128_264, 4096)
    for index in range(40):
        layer = f"{text}.layers.{index}"
        attention = f"{layer}.cross_attn" if index in CROSS else f"{layer}.self_attn"
        yield from bf16(f"{attention}.q_proj", 4096, 4096)
        yield from bf16(f"{attention}.k_proj", 1024, 4096)
        yield from bf16(f"{attention}.v_proj", 1024, 4096)
        yield from bf16(f"{attention}.o_proj", 4096, 4096)
        if index in CROSS:
            yield from bf16(f"{attention}.q_norm", 128)
            yield from bf16(f"{attention}.k_norm", 128)
            yield f"{layer}.cross_attn_attn_gate", "BF16", (1,)
            yield f"{layer}.cross_attn_mlp_gate", "BF16", (1,)
        yield from bf16(f"{layer}.mlp.gate_proj", 14_336, 4096)
        yield from bf16(f"{layer}.mlp.up_proj", 14_336, 4096)
        yield from bf16(f"{layer}.mlp.down_proj", 4096, 14_336)
        yield from norms(layer, 4096)
    yield from bf16(f"{text}.norm", 4096)
    yield from bf16("language_model.lm_head", 128_256, 4096)


def _vision() -> Iterator[Tensor]:
    tower = "vision_model"
    yield f"{tower}.class_embedding", "BF16", (1280,)
    yield from bf16(f"{tower}.patch_embedding", 1280, 3, 14, 14)
    yield f"{tower}.gated_positional_embedding.embedding", "BF16", (1601, 1280)
    yield f"{tower}.gated_positional_embedding.gate", "BF16", (1,)
    yield from bf16(f"{tower}.gated_positional_embedding.tile_embedding", 9, 8_197_120)
    for name in ("pre_tile_positional_embedding", "post_tile_positional_embedding"):
        yield from bf16(f"{tower}.{name}.embedding", 9, 5120)
        yield f"{tower}.{name}.gate", "BF16", (1,)
    yield from biased(f"{tower}.layernorm_pre", 1280)
    yield from biased(f"{tower}.layernorm_post", 1280)
    for stack, layers in (("transformer", 32), ("global_transformer", 8)):
        for index in range(layers):
            layer = f"{tower}.{stack}.layers.{index}"
            for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
                yield from bf16(f"{layer}.self_attn.{name}", 1280, 1280)
            yield from biased(f"{layer}.mlp.fc1", 5120, 1280)
            yield from biased(f"{layer}.mlp.fc2", 1280, 5120)
            yield from biased(f"{layer}.input_layernorm", 1280)
            yield from biased(f"{layer}.post_attention_layernorm", 1280)


CONFIG: dict[str, object] = {
    "architectures": ["MllamaForConditionalGeneration"],
    "model_type": "mllama",
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "mllama_text_model",
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128_256,
        "max_position_embeddings": 131_072,
        "cross_attention_layers": sorted(CROSS),
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    },
    "vision_config": {
        "model_type": "mllama_vision_model",
        "hidden_size": 1280,
        "intermediate_size": 5120,
        "num_hidden_layers": 32,
        "num_global_layers": 8,
        "image_size": 560,
        "patch_size": 14,
    },
}
