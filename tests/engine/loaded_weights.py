"""Measures on real vLLM how many bytes of weights each worker holds; writes a fixture.

Usage, with the engine's own interpreter: python -m tests.engine.loaded_weights OUTPUT [NAME...]
The bytes are counted in the worker, over the distinct storages of the model's parameters and
buffers, after loading.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHAPES: dict[str, dict[str, Any]] = {
    "untied": {},
    "tied": {"tie": True},
    "gqa": {"kv_heads": 2},
    "mqa-tp2": {"kv_heads": 1, "tp": 2},
    "gqa-tp2": {"kv_heads": 4, "tp": 2},
    "tied-tp2": {"tie": True, "tp": 2},
    "odd-vocabulary-tp2": {"vocab": 1000, "tp": 2},
    "odd-vocabulary-tied": {"vocab": 777, "tie": True},
    "wide": {"hidden": 1024, "layers": 4, "heads": 16, "kv_heads": 4, "vocab": 32_000},
    "wide-tp2": {"hidden": 1024, "layers": 4, "heads": 16, "kv_heads": 4, "vocab": 32_000, "tp": 2},
}
"""Beside these: hidden 256, 2 layers, 8 heads of hidden/heads, vocabulary 512, 2048 positions."""


def config_of(shape: dict[str, Any]) -> dict[str, object]:
    hidden, heads = shape.get("hidden", 256), shape.get("heads", 8)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": shape.get("layers", 2),
        "num_attention_heads": heads,
        "num_key_value_heads": shape.get("kv_heads", heads),
        "head_dim": hidden // heads,
        "vocab_size": shape.get("vocab", 512),
        "max_position_embeddings": 2048,
        "tie_word_embeddings": shape.get("tie", False),
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
    }


def tensors_of(shape: dict[str, Any]) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """What a checkpoint of the shape holds, for the estimate: the engine gets dummy weights."""
    config = config_of(shape)
    hidden, heads, kv_heads = shape.get("hidden", 256), shape.get("heads", 8), shape.get("kv_heads")
    kv_rows = hidden // heads * (kv_heads or heads)
    inner, vocabulary = 2 * hidden, shape.get("vocab", 512)
    yield "model.embed_tokens.weight", "BF16", (vocabulary, hidden)
    for index in range(shape.get("layers", 2)):
        layer = f"model.layers.{index}"
        for name, rows, columns in (
            ("self_attn.q_proj", hidden, hidden),
            ("self_attn.k_proj", kv_rows, hidden),
            ("self_attn.v_proj", kv_rows, hidden),
            ("self_attn.o_proj", hidden, hidden),
            ("mlp.gate_proj", inner, hidden),
            ("mlp.up_proj", inner, hidden),
            ("mlp.down_proj", hidden, inner),
        ):
            yield f"{layer}.{name}.weight", "BF16", (rows, columns)
        yield f"{layer}.input_layernorm.weight", "BF16", (hidden,)
        yield f"{layer}.post_attention_layernorm.weight", "BF16", (hidden,)
    yield "model.norm.weight", "BF16", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", "BF16", (vocabulary, hidden)


def held_bytes(worker: Any) -> int:
    """Distinct storages of parameters and buffers, in the worker."""
    model = worker.model_runner.model
    tensors = [*model.parameters(), *model.buffers()]
    return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def measure(shape: dict[str, Any]) -> list[int]:
    """Start the engine on a model of that shape with dummy weights; bytes of each rank."""
    from vllm import LLM

    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "config.json").write_text(json.dumps(config_of(shape)))
        engine = LLM(
            model=directory,
            load_format="dummy",
            skip_tokenizer_init=True,
            tensor_parallel_size=shape.get("tp", 1),
            enforce_eager=True,
            max_model_len=128,
            max_num_seqs=4,
            kv_cache_memory_bytes=64 << 20,
        )
        return [int(size) for size in engine.collective_rpc(held_bytes)]


def main() -> None:
    """Measure the named shapes, or all of them, each in a process of its own."""
    output, names = Path(sys.argv[1]), sys.argv[2:] or list(SHAPES)
    os.environ |= {
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        # imported once, forked for every engine and worker: seconds instead of a minute
        "VLLM_WORKER_MULTIPROC_METHOD": "fork",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    }
    import vllm.model_executor.models.llama
    import vllm.v1.engine.core
    import vllm.v1.worker.cpu_worker  # noqa: F401 - all of it is there before the forks
    from vllm import LLM  # noqa: F401

    known = json.loads(output.read_text()) if output.exists() else {}
    for name in names:
        child = os.fork()
        if child == 0:
            try:
                known[name] = {"ranks_bytes": measure(SHAPES[name])}
                output.write_text(json.dumps(known, indent=2) + "\n")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        known = json.loads(output.read_text()) if output.exists() else {}
        print(name, known.get(name), flush=True)


if __name__ == "__main__":
    main()
