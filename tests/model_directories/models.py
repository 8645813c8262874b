"""The models by name, with the values of their published config.json."""

from __future__ import annotations

from functools import partial

from tests.model_directories import vision
from tests.model_directories.definitions import (
    Definition,
    Llama,
    bamba_9b,
    bf16,
    deepseek_v3,
    gpt_oss_120b,
    minimax_m25,
    nvfp4,
    qwen3_moe,
)

FP8_BLOCKS: dict[str, object] = {
    "quant_method": "fp8",
    "fmt": "float8_e4m3fn",
    "activation_scheme": "dynamic",
    "weight_block_size": [128, 128],
}
MINIMAX_M25: dict[str, object] = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "model_type": "minimax_m2",
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rotary_dim": 64,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "num_mtp_modules": 3,
    "use_qk_norm": True,
    "vocab_size": 200_064,
    "max_position_embeddings": 196_608,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "quantization_config": {
        **FP8_BLOCKS,
        "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"],
    },
}
QWEN3_30B_A3B: dict[str, object] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "vocab_size": 151_936,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
DEEPSEEK_V3: dict[str, object] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18_432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "vocab_size": 129_280,
    "max_position_embeddings": 163_840,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "quantization_config": FP8_BLOCKS,
}
GPT_OSS_120B: dict[str, object] = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 128,
    "experts_per_token": 4,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "vocab_size": 201_088,
    "max_position_embeddings": 131_072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
    },
}
BAMBA_9B: dict[str, object] = {
    "architectures": ["BambaForCausalLM"],
    "model_type": "bamba",
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "attn_layer_indices": [9, 18, 27],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "mamba_n_heads": 128,
    "mamba_d_head": 64,
    "mamba_n_groups": 1,
    "mamba_d_state": 128,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "vocab_size": 128_256,
    "max_position_embeddings": 262_144,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
NVFP4: dict[str, object] = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "group_size": 16,
    "ignore": ["lm_head", "*mlp.gate"],
}
LLAMA_2_7B = Llama(4096, 11_008, 32, 4096, 32_000)
LLAMA_31_8B = Llama(4096, 14_336, 32, 1024, 128_256)
LLAMA_33_70B = Llama(8192, 28_672, 80, 1024, 128_256)

SIX = {
    "minimax-m2.5": Definition(MINIMAX_M25, minimax_m25, 125),
    "llama-3.3-70b": Definition(
        LLAMA_33_70B.config(64, 8, 131_072), LLAMA_33_70B.tensors, shards=30
    ),
    "qwen3-30b-a3b": Definition(QWEN3_30B_A3B, partial(qwen3_moe, bf16), 16),
    "deepseek-v3": Definition(DEEPSEEK_V3, deepseek_v3, 163),
    "gpt-oss-120b": Definition(GPT_OSS_120B, gpt_oss_120b, 15),
    "bamba-9b": Definition(BAMBA_9B, bamba_9b, 4),
}
"""The models that the plan is shown on."""

MODELS = SIX | {
    "llama-2-7b": Definition(LLAMA_2_7B.config(32, 32, 4096), LLAMA_2_7B.tensors, 2),
    "llama-3.1-8b": Definition(LLAMA_31_8B.config(32, 8, 131_072), LLAMA_31_8B.tensors, 4),
    "qwen3-30b-a3b-nvfp4": Definition(
        {**QWEN3_30B_A3B, "quantization_config": NVFP4}, partial(qwen3_moe, nvfp4), 4
    ),
    "llama-3.2-11b-vision": Definition(vision.CONFIG, vision.llama_32_11b_vision, 5),
}
