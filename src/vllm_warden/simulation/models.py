"""Makes model folders without weights, and reads the shape of a model from one."""

from __future__ import annotations

import json
from pathlib import Path

from vllm_warden.simulation.physics import Shape

MINIMAX_M25: dict[str, object] = {
    "architectures": ["MiniMaxM2ForCausalLM"],
    "model_type": "minimax_m2",
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
    "vocab_size": 200_064,
    "max_position_embeddings": 196_608,
    "torch_dtype": "bfloat16",
    "quantization_config": {
        "quant_method": "fp8",
        "fmt": "float8_e4m3fn",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
    },
}
"""A config.json of the shape of MiniMax-M2.5."""

MINIMAX_M25_WEIGHT_BYTES = 230_000_000_000


def write_minimax_m25(directory: Path) -> Path:
    """A folder that is MiniMax-M2.5 to everything that reads only its metadata."""
    return write_model(directory, MINIMAX_M25, MINIMAX_M25_WEIGHT_BYTES)


def write_model(directory: Path, config: dict[str, object], weight_bytes: int) -> Path:
    """config.json and an index that names the size of weights that are not there."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    index = {"metadata": {"total_size": weight_bytes}, "weight_map": {}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return directory


def read_shape(directory: Path) -> Shape:
    """The shape of the model in a folder; a tiny Llama where there is no config.json.

    Weight bytes come from the index, else from the sizes of the checkpoint files, else from the
    number of parameters at two bytes.
    """
    config = _read(directory / "config.json")
    hidden = _number(config, "hidden_size", 256)
    heads = _number(config, "num_attention_heads", 8)
    layers = _number(config, "num_hidden_layers", 2)
    vocab = _number(config, "vocab_size", 512)
    quantization = config.get("quantization_config")
    block = quantization.get("weight_block_size") if isinstance(quantization, dict) else None
    experts = _number(config, "num_local_experts", 0)
    names = config.get("architectures")
    return Shape(
        weight_bytes=_weight_bytes(directory) or 2 * (12 * layers * hidden**2 + 2 * vocab * hidden),
        vocab_size=vocab,
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=_number(config, "num_key_value_heads", heads),
        head_dim=_number(config, "head_dim", hidden // heads),
        max_position=_number(config, "max_position_embeddings", 2048),
        moe_intermediate_size=_number(config, "intermediate_size", 0) if experts else 0,
        weight_block=block[0] if isinstance(block, list) and block else 0,
        architecture=str(names[0]) if isinstance(names, list) and names else "LlamaForCausalLM",
    )


def _weight_bytes(directory: Path) -> int:
    metadata = _read(directory / "model.safetensors.index.json").get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("total_size"), int):
        return int(metadata["total_size"])
    try:
        return sum(file.stat().st_size for file in directory.glob("*.safetensors"))
    except OSError:
        return 0


def _read(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _number(config: dict[str, object], key: str, default: int) -> int:
    value = config.get(key)
    return value if isinstance(value, int) and value > 0 else default
