r"""Make a tiny, entirely local Llama model directory that real vLLM can serve.

Nothing is downloaded. The directory holds a ``config.json``, a byte-level
tokenizer with a chat template (so completions and chat work over HTTP) and,
with ``--weights``, a checkpoint of zeros.

Serve it without a checkpoint:

    python3 tiny_model.py /tmp/tiny
    vllm serve /tmp/tiny --load-format dummy

The checkpoint that ``--weights`` writes is a sparse file: it takes next to no
disk space, whatever its size, so a model that does not fit in memory costs
nothing to make. That is what the out-of-memory recipes use, e.g.

    python3 tiny_model.py /tmp/big --vocab-size 200064 --hidden-size 2048 \\
        --layers 16 --weights

Only the standard library is needed; the tokenizer is written as plain JSON.
"""

from __future__ import annotations

import argparse
import json
import struct
from pathlib import Path
from typing import Any

SPECIAL_TOKENS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
BOS_ID, EOS_ID = 1, 2

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_alphabet() -> list[str]:
    """The 256 printable characters that byte-level BPE maps bytes to, in byte order."""
    printable = {*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    alphabet, spare = [], 0
    for byte in range(256):
        if byte in printable:
            alphabet.append(chr(byte))
        else:
            alphabet.append(chr(0x100 + spare))
            spare += 1
    return alphabet


def model_config(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "hidden_act": "silu",
        "hidden_size": args.hidden_size,
        "intermediate_size": args.intermediate_size or 2 * args.hidden_size,
        "max_position_embeddings": args.max_position,
        "num_attention_heads": args.heads,
        "num_hidden_layers": args.layers,
        "num_key_value_heads": args.kv_heads or args.heads,
        "head_dim": args.head_dim,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "tie_word_embeddings": args.tie_embeddings,
        "torch_dtype": "bfloat16",
        "vocab_size": args.vocab_size,
    }


def tokenizer_json() -> dict[str, Any]:
    """A byte-level BPE tokenizer without merges: one token per byte of text."""
    vocab = {token: i for i, token in enumerate(SPECIAL_TOKENS)}
    for char in byte_alphabet():
        vocab[char] = len(vocab)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": i,
                "content": token,
                "special": True,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            }
            for i, token in enumerate(SPECIAL_TOKENS)
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [],
        },
    }


def tokenizer_config(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": args.max_position,
        "chat_template": CHAT_TEMPLATE,
    }


def tensor_shapes(config: dict[str, Any]) -> dict[str, list[int]]:
    """Names and shapes of the tensors of a Llama checkpoint."""
    hidden, inter = config["hidden_size"], config["intermediate_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    kv = config["num_key_value_heads"] * config["head_dim"]
    shapes = {"model.embed_tokens.weight": [config["vocab_size"], hidden]}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        shapes |= {
            f"{layer}.input_layernorm.weight": [hidden],
            f"{layer}.self_attn.q_proj.weight": [query, hidden],
            f"{layer}.self_attn.k_proj.weight": [kv, hidden],
            f"{layer}.self_attn.v_proj.weight": [kv, hidden],
            f"{layer}.self_attn.o_proj.weight": [hidden, query],
            f"{layer}.post_attention_layernorm.weight": [hidden],
            f"{layer}.mlp.gate_proj.weight": [inter, hidden],
            f"{layer}.mlp.up_proj.weight": [inter, hidden],
            f"{layer}.mlp.down_proj.weight": [hidden, inter],
        }
    shapes["model.norm.weight"] = [hidden]
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [config["vocab_size"], hidden]
    return shapes


def write_sparse_safetensors(path: Path, shapes: dict[str, list[int]]) -> int:
    """Write bfloat16 zeros as a sparse safetensors file; return its apparent size."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, shape in shapes.items():
        size = 2
        for dim in shape:
            size *= dim
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    blob = json.dumps(header).encode()
    blob += b" " * (-len(blob) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(blob)) + blob)
        file.truncate(8 + len(blob) + offset)
    return 8 + len(blob) + offset


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Make a tiny local Llama model directory for vLLM (no download)."
    )
    parser.add_argument("directory", type=Path, help="folder to write the model into")
    parser.add_argument("--hidden-size", type=int, default=256)
    parser.add_argument("--intermediate-size", type=int, help="default: twice the hidden size")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=8, help="attention heads")
    parser.add_argument("--kv-heads", type=int, help="key/value heads (default: as --heads)")
    parser.add_argument(
        "--head-dim", type=int, default=32, help="vLLM's CPU attention needs one it supports"
    )
    parser.add_argument("--vocab-size", type=int, default=512, help="at least 261")
    parser.add_argument("--max-position", type=int, default=2048, help="longest context")
    parser.add_argument("--tie-embeddings", action="store_true", help="no separate lm_head")
    parser.add_argument(
        "--weights", action="store_true", help="also write a (sparse) checkpoint of zeros"
    )
    args = parser.parse_args(argv)
    smallest = len(SPECIAL_TOKENS) + 256
    if args.vocab_size < smallest:
        parser.error(f"--vocab-size must be at least {smallest}")
    return args


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    args.directory.mkdir(parents=True, exist_ok=True)
    config = model_config(args)
    for name, content in {
        "config.json": config,
        "generation_config.json": {"bos_token_id": BOS_ID, "eos_token_id": EOS_ID},
        "tokenizer.json": tokenizer_json(),
        "tokenizer_config.json": tokenizer_config(args),
    }.items():
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (args.directory / name).write_text(text, encoding="utf-8")
    checkpoint = args.directory / "model.safetensors"
    checkpoint.unlink(missing_ok=True)
    if args.weights:
        size = write_sparse_safetensors(checkpoint, tensor_shapes(config))
        print(f"{checkpoint}: {size / 2**20:.1f} MiB of zeros (sparse)")
    print(f"{args.directory}: ready")


if __name__ == "__main__":
    main()
