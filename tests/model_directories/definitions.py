"""Published definitions: config.json and every tensor of models that this machine does not have.

Names, types and shapes follow the models' own definitions (config.json of their repositories and
the modules of Hugging Face transformers). Nothing here knows how an engine shares them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

Tensor = tuple[str, str, tuple[int, ...]]
"""Name, safetensors dtype, shape."""


@dataclass(frozen=True)
class Definition:
    """A model: what its config.json says, its tensors in order, how many shards they fill."""

    config: dict[str, object]
    tensors: Callable[[], Iterator[Tensor]]
    shards: int


def fp8(name: str, rows: int, columns: int) -> Iterator[Tensor]:
    """A linear layer in 8 bit with a scale for each block of 128 x 128."""
    yield f"{name}.weight", "F8_E4M3", (rows, columns)
    yield f"{name}.weight_scale_inv", "F32", (-(-rows // 128), -(-columns // 128))


def nvfp4(name: str, rows: int, columns: int) -> Iterator[Tensor]:
    """A linear layer in 4 bit, two values a byte, one 8-bit scale for 16 of them."""
    yield f"{name}.weight", "U8", (rows, columns // 2)
    yield f"{name}.weight_scale", "F8_E4M3", (rows, columns // 16)
    yield f"{name}.weight_scale_2", "F32", ()
    yield f"{name}.input_scale", "F32", ()


def bf16(name: str, *shape: int) -> Iterator[Tensor]:
    yield f"{name}.weight", "BF16", shape


def biased(name: str, *shape: int) -> Iterator[Tensor]:
    yield from bf16(name, *shape)
    yield f"{name}.bias", "BF16", shape[:1]


def norms(layer: str, hidden: int) -> Iterator[Tensor]:
    yield from bf16(f"{layer}.input_layernorm", hidden)
    yield from bf16(f"{layer}.post_attention_layernorm", hidden)


def minimax_m25() -> Iterator[Tensor]:
    yield from bf16("model.embed_tokens", 200_064, 3072)
    for index in range(62):
        layer = f"model.layers.{index}"
        yield from fp8(f"{layer}.self_attn.q_proj", 6144, 3072)
        yield from fp8(f"{layer}.self_attn.k_proj", 1024, 3072)
        yield from fp8(f"{layer}.self_attn.v_proj", 1024, 3072)
        yield from fp8(f"{layer}.self_attn.o_proj", 3072, 6144)
        yield from bf16(f"{layer}.self_attn.q_norm", 6144)
        yield from bf16(f"{layer}.self_attn.k_norm", 1024)
        yield f"{layer}.block_sparse_moe.gate.weight", "F32", (256, 3072)
        yield f"{layer}.block_sparse_moe.e_score_correction_bias", "F32", (256,)
        for expert in range(256):
            name = f"{layer}.block_sparse_moe.experts.{expert}"
            yield from fp8(f"{name}.w1", 1536, 3072)
            yield from fp8(f"{name}.w2", 3072, 1536)
            yield from fp8(f"{name}.w3", 1536, 3072)
        yield from norms(layer, 3072)
    yield from bf16("model.norm", 3072)
    yield from bf16("lm_head", 200_064, 3072)


@dataclass(frozen=True)
class Llama:
    """Sizes of a plain Llama."""

    hidden: int
    intermediate: int
    layers: int
    kv_rows: int
    vocabulary: int

    def tensors(self) -> Iterator[Tensor]:
        yield from bf16("model.embed_tokens", self.vocabulary, self.hidden)
        for index in range(self.layers):
            layer = f"model.layers.{index}"
            yield from bf16(f"{layer}.self_attn.q_proj", self.hidden, self.hidden)
            yield from bf16(f"{layer}.self_attn.k_proj", self.kv_rows, self.hidden)
            yield from bf16(f"{layer}.self_attn.v_proj", self.kv_rows, self.hidden)
            yield from bf16(f"{layer}.self_attn.o_proj", self.hidden, self.hidden)
            yield from bf16(f"{layer}.mlp.gate_proj", self.intermediate, self.hidden)
            yield from bf16(f"{layer}.mlp.up_proj", self.intermediate, self.hidden)
            yield from bf16(f"{layer}.mlp.down_proj", self.hidden, self.intermediate)
            yield from norms(layer, self.hidden)
        yield from bf16("model.norm", self.hidden)
        yield from bf16("lm_head", self.vocabulary, self.hidden)

    def config(self, heads: int, kv_heads: int, positions: int) -> dict[str, object]:
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": positions,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
        }


def qwen3_moe(linear: Callable[..., Iterator[Tensor]]) -> Iterator[Tensor]:
    """Qwen3-30B-A3B with its linear layers stored by ``linear``."""
    yield from bf16("model.embed_tokens", 151_936, 2048)
    for index in range(48):
        layer = f"model.layers.{index}"
        yield from linear(f"{layer}.self_attn.q_proj", 4096, 2048)
        yield from linear(f"{layer}.self_attn.k_proj", 512, 2048)
        yield from linear(f"{layer}.self_attn.v_proj", 512, 2048)
        yield from linear(f"{layer}.self_attn.o_proj", 2048, 4096)
        yield from bf16(f"{layer}.self_attn.q_norm", 128)
        yield from bf16(f"{layer}.self_attn.k_norm", 128)
        yield from bf16(f"{layer}.mlp.gate", 128, 2048)
        for expert in range(128):
            name = f"{layer}.mlp.experts.{expert}"
            yield from linear(f"{name}.gate_proj", 768, 2048)
            yield from linear(f"{name}.up_proj", 768, 2048)
            yield from linear(f"{name}.down_proj", 2048, 768)
        yield from norms(layer, 2048)
    yield from bf16("model.norm", 2048)
    yield from bf16("lm_head", 151_936, 2048)


def _deepseek_mlp(name: str, inner: int) -> Iterator[Tensor]:
    yield from fp8(f"{name}.gate_proj", inner, 7168)
    yield from fp8(f"{name}.up_proj", inner, 7168)
    yield from fp8(f"{name}.down_proj", 7168, inner)


def _deepseek_layer(index: int) -> Iterator[Tensor]:
    layer = f"model.layers.{index}"
    yield from fp8(f"{layer}.self_attn.q_a_proj", 1536, 7168)
    yield from bf16(f"{layer}.self_attn.q_a_layernorm", 1536)
    yield from fp8(f"{layer}.self_attn.q_b_proj", 24_576, 1536)
    yield from fp8(f"{layer}.self_attn.kv_a_proj_with_mqa", 576, 7168)
    yield from bf16(f"{layer}.self_attn.kv_a_layernorm", 512)
    yield from fp8(f"{layer}.self_attn.kv_b_proj", 32_768, 512)
    yield from fp8(f"{layer}.self_attn.o_proj", 7168, 16_384)
    if index < 3:
        yield from _deepseek_mlp(f"{layer}.mlp", 18_432)
    else:
        yield from bf16(f"{layer}.mlp.gate", 256, 7168)
        yield f"{layer}.mlp.gate.e_score_correction_bias", "F32", (256,)
        yield from _deepseek_mlp(f"{layer}.mlp.shared_experts", 2048)
        for expert in range(256):
            yield from _deepseek_mlp(f"{layer}.mlp.experts.{expert}", 2048)
    yield from norms(layer, 7168)


def deepseek_v3() -> Iterator[Tensor]:
    yield from bf16("model.embed_tokens", 129_280, 7168)
    for index in range(61):
        yield from _deepseek_layer(index)
    yield from bf16("model.norm", 7168)
    yield from bf16("lm_head", 129_280, 7168)
    # layer 61 is the module that predicts one token more, with its copies of both embeddings
    extra = "model.layers.61"
    yield from bf16(f"{extra}.embed_tokens", 129_280, 7168)
    yield from bf16(f"{extra}.enorm", 7168)
    yield from bf16(f"{extra}.hnorm", 7168)
    yield from bf16(f"{extra}.eh_proj", 7168, 14_336)
    yield from _deepseek_layer(61)
    yield from bf16(f"{extra}.shared_head.norm", 7168)
    yield from bf16(f"{extra}.shared_head.head", 129_280, 7168)


def gpt_oss_120b() -> Iterator[Tensor]:
    yield from bf16("model.embed_tokens", 201_088, 2880)
    for index in range(36):
        layer = f"model.layers.{index}"
        yield from biased(f"{layer}.self_attn.q_proj", 4096, 2880)
        yield from biased(f"{layer}.self_attn.k_proj", 512, 2880)
        yield from biased(f"{layer}.self_attn.v_proj", 512, 2880)
        yield from biased(f"{layer}.self_attn.o_proj", 2880, 4096)
        yield f"{layer}.self_attn.sinks", "BF16", (64,)
        yield from biased(f"{layer}.mlp.router", 128, 2880)
        for name, rows in (("gate_up_proj", 5760), ("down_proj", 2880)):
            yield f"{layer}.mlp.experts.{name}_blocks", "U8", (128, rows, 90, 16)
            yield f"{layer}.mlp.experts.{name}_scales", "U8", (128, rows, 90)
            yield f"{layer}.mlp.experts.{name}_bias", "BF16", (128, rows)
        yield from norms(layer, 2880)
    yield from bf16("model.norm", 2880)
    yield from bf16("lm_head", 201_088, 2880)


def _feed_forward(name: str, hidden: int, inner: int) -> Iterator[Tensor]:
    yield from bf16(f"{name}.gate_proj", inner, hidden)
    yield from bf16(f"{name}.up_proj", inner, hidden)
    yield from bf16(f"{name}.down_proj", hidden, inner)


def bamba_9b() -> Iterator[Tensor]:
    yield from bf16("model.embed_tokens", 128_256, 4096)
    for index in range(32):
        layer = f"model.layers.{index}"
        if index in {9, 18, 27}:
            yield from bf16(f"{layer}.self_attn.q_proj", 4096, 4096)
            yield from bf16(f"{layer}.self_attn.k_proj", 1024, 4096)
            yield from bf16(f"{layer}.self_attn.v_proj", 1024, 4096)
            yield from bf16(f"{layer}.self_attn.o_proj", 4096, 4096)
        else:
            yield f"{layer}.mamba.A_log", "BF16", (128,)
            yield f"{layer}.mamba.D", "BF16", (128,)
            yield f"{layer}.mamba.dt_bias", "BF16", (128,)
            yield from biased(f"{layer}.mamba.conv1d", 8448, 1, 4)
            yield from bf16(f"{layer}.mamba.in_proj", 16_768, 4096)
            yield from bf16(f"{layer}.mamba.norm", 8192)
            yield from bf16(f"{layer}.mamba.out_proj", 4096, 8192)
        yield from _feed_forward(f"{layer}.feed_forward", 4096, 14_336)
        yield from bf16(f"{layer}.input_layernorm", 4096)
        yield from bf16(f"{layer}.pre_ff_layernorm", 4096)
    yield from bf16("model.final_layernorm", 4096)
    yield from bf16("lm_head", 128_256, 4096)
