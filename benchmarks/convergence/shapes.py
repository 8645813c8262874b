"""Models and GPUs that scenarios are drawn from: rounded shapes of well-known ones."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.convergence.scenario import GIB, MIB


@dataclass(frozen=True, slots=True)
class Shape:
    """``hidden`` scales activations; weights come from the story."""

    name: str
    architecture: str
    layers: int
    hidden: int
    kv_heads: int
    head_dim: int
    vocab: int


SHAPES = (
    Shape("llama-3.1-8b", "LlamaForCausalLM", 32, 4096, 8, 128, 128_256),
    Shape("llama-3.3-70b", "LlamaForCausalLM", 80, 8192, 8, 128, 128_256),
    Shape("qwen3-32b", "Qwen3ForCausalLM", 64, 5120, 8, 128, 151_936),
    Shape("qwen3-30b-a3b", "Qwen3MoeForCausalLM", 48, 2048, 4, 128, 151_936),
    Shape("mistral-small-24b", "MistralForCausalLM", 40, 5120, 8, 128, 131_072),
    Shape("gpt-oss-120b", "GptOssForCausalLM", 36, 2880, 8, 64, 201_088),
    Shape("gemma-3-27b", "Gemma3ForCausalLM", 62, 5376, 16, 128, 262_144),
    Shape("phi-4", "Phi3ForCausalLM", 40, 5120, 10, 128, 100_352),
)
MINIMAX = Shape("minimax-m2.5", "MiniMaxM2ForCausalLM", 62, 3072, 8, 128, 200_064)
HYBRID = Shape("nemotron-h-47b", "NemotronHForCausalLM", 12, 8192, 8, 128, 131_072)

GPUS = (
    ("NVIDIA H100 80GB HBM3", 81_559 * MIB),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887 * MIB),
    ("NVIDIA H200", 143_771 * MIB),
    ("NVIDIA A100-SXM4-80GB", 81_920 * MIB),
    ("NVIDIA L40S", 46_068 * MIB),
)
LARGE_BYTES = 70 * GIB
