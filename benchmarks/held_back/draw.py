"""Draws hosts, models and hidden values, from distributions of this bench's own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.held_back.needs import block_bytes
from benchmarks.held_back.rooms import Wall, rooms
from benchmarks.held_back.scenario import Model
from benchmarks.held_back.truth import GIB, MIB, Settings, Truth, Value

RESERVED_MIB = 512
SORTING = ("0.9.2", "0.15.1")
BUDGETED = ("0.32.0",)
ANY = (*SORTING, *BUDGETED)

GPUS = (
    ("NVIDIA A100-SXM4-40GB", 40_960),
    ("NVIDIA RTX 6000 Ada Generation", 49_140),
    ("NVIDIA H100 NVL", 95_830),
    ("NVIDIA GH200 480GB", 97_871),
    ("NVIDIA B200", 183_359),
)
LARGE = GPUS[2:]

MODELS = (
    # name, architecture, layers, hidden, heads, kv heads, head dim, vocabulary
    ("yi-34b", "LlamaForCausalLM", 60, 7168, 56, 8, 128, 64_000),
    ("command-r", "CohereForCausalLM", 40, 8192, 64, 8, 128, 256_000),
    ("qwen2.5-72b", "Qwen2ForCausalLM", 80, 8192, 64, 8, 128, 152_064),
    ("olmo-2-13b", "Olmo2ForCausalLM", 40, 5120, 40, 40, 128, 100_352),
    ("granite-20b", "GPTBigCodeForCausalLM", 52, 6144, 48, 1, 128, 49_152),
    ("glm-4-32b", "Glm4ForCausalLM", 61, 6144, 48, 2, 128, 151_552),
)
WIDE = tuple(model for model in MODELS if model[-1] > 140_000)

SAMPLERS = {
    # Bytes per row and vocabulary entry of the tensors alive at the peak, in order.
    "0.9.2": ((2, 4, 4, 8, 8, 8, 4, 12), (4, 4, 4, 8, 8, 8, 4, 12), (2, 4, 4, 8, 8, 4)),
    "0.15.1": ((2, 4, 4, 8, 8, 8, 4, 12), (4, 4, 4, 8, 8, 8, 4, 12), (2, 4, 8, 8, 8, 8)),
    "0.32.0": ((2, 4, 2), (2, 4, 4, 4), (4, 4)),
}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a family wants of the common draw."""

    versions: Sequence[str] = ANY
    utilizations: Sequence[float] = (0.87, 0.89, 0.91, 0.93, 0.955)
    weights: tuple[float, float] = (0.3, 0.7)
    forward_gib: tuple[float, float] = (0.5, 4.0)
    graphs_gib: tuple[float, float] = (0.3, 1.4)
    sequences: Sequence[int] = (96, 160, 256, 384, 512)
    tokens: Sequence[int] = (2048, 4096, 8192, 12288)
    ranks: Sequence[int] = (1, 1, 2)
    gpus: Sequence[tuple[str, int]] = GPUS
    models: Sequence[tuple[str, str, int, int, int, int, int, int]] = MODELS


@dataclass(frozen=True, slots=True)
class Drawn:
    truth: Truth
    model: Model
    gpu_name: str
    asked: dict[str, Value]


def draw(source: random.Random, wishes: Wishes) -> Drawn:
    """A host, a model and settings; whether it all fits is the family's business."""
    name, architecture, layers, hidden, heads, kv_heads, head_dim, vocab = source.choice(
        wishes.models
    )
    gpu_name, total_mib = source.choice(wishes.gpus)
    total, version = (total_mib - RESERVED_MIB) * MIB, source.choice(wishes.versions)
    ranks = source.choice(wishes.ranks)
    tokens = source.choice(wishes.tokens)
    asked: dict[str, Value] = {
        "max_num_seqs": source.choice(wishes.sequences),
        "max_num_batched_tokens": tokens,
        "gpu_memory_utilization": source.choice(wishes.utilizations),
        "max_model_len": source.choice((4096, 10_000, 20_480, 40_960)),
    }
    forward = source.triangular(*wishes.forward_gib) * GIB
    attention = forward * source.uniform(0.02, 0.2)
    fixed = forward * source.betavariate(2, 5)
    weight = int(total * source.uniform(*wishes.weights))
    graphs = source.triangular(*wishes.graphs_gib) * GIB
    power = source.uniform(0.3, 0.8)
    truth = Truth(
        seed=f"{source.random()}",
        version=version,
        total=total,
        weights=_per_rank(source, weight, ranks),
        context=int(min(1100, source.lognormvariate(6.1, 0.25)) * MIB),
        channel=int(source.triangular(120, 420, 180) * MIB),
        forward_fixed=int(fixed),
        forward_slope=max(1, int((forward - fixed - attention) / tokens)),
        token_tile=source.choice((64, 256, 512)),
        attention_slope=int(attention / int(asked["max_model_len"])),
        attention_factor=source.triangular(1.0, 1.5, 1.0),
        sampler=tuple(per * source.uniform(0.9, 1.08) for per in source.choice(SAMPLERS[version])),
        vocab=vocab,
        vocab_tile=64 * ranks,
        layers=layers,
        kv_heads=kv_heads,
        head_dim=head_dim,
        graph_first=int(graphs * source.uniform(0.05, 0.45)),
        graph_base=int(2 * MIB),
        graph_slope=graphs * 0.6 / (51 * 250**power),
        graph_power=power,
        estimate_factor=source.triangular(0.6, 1.25, 0.95) if version in BUDGETED else 0.0,
        growth=int(source.expovariate(1 / 60) * MIB) % (400 * MIB),
        workspace=int(source.triangular(40, 650, 200) * MIB),
        waste=source.betavariate(2, 30),
        jitter=int(source.uniform(4, 70) * MIB),
    )
    truth = _shorter(truth, asked)
    config = {
        "architectures": [architecture],
        "hidden_size": hidden,
        "intermediate_size": 4 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "vocab_size": vocab,
        "max_position_embeddings": 131_072,
        "torch_dtype": "bfloat16",
    }
    return Drawn(truth, Model(name, config, 0), gpu_name, asked)


def _per_rank(source: random.Random, weight: int, ranks: int) -> tuple[int, ...]:
    """The first rank holds a little more than the others, as with padded vocabularies."""
    uneven = source.uniform(0.0, 0.02)
    return tuple(int(weight * (1 + uneven * (rank == 0))) for rank in range(ranks))


def _shorter(truth: Truth, asked: dict[str, Value]) -> Truth:
    """One request takes at most an eighth of the GPU."""
    length = int(asked["max_model_len"])
    while length > 2048 and length / 16 * block_bytes(truth) > truth.total / 8:
        length //= 2
    asked["max_model_len"] = length
    return truth


def with_room(truth: Truth, asked: Settings, wall: Wall, room: int) -> Truth:
    """The same with weights such that so much is left at the wall."""
    more = rooms(truth, asked, 0, None)[wall] - room
    return replace(truth, weights=tuple(max(GIB // 2, one + more) for one in truth.weights))


def ranges(
    asked: Settings, written: dict[str, tuple[float | None, float | None]]
) -> dict[str, tuple[float, float]]:
    """The bounds of every knob: the defaults of the configuration, or what was written."""
    seqs, tokens = float(asked["max_num_seqs"]), float(asked["max_num_batched_tokens"])
    utilization = float(asked["gpu_memory_utilization"])
    found = {
        "max_num_seqs": (min(seqs, max(16.0, seqs // 8)), seqs),
        "max_num_batched_tokens": (min(tokens, max(2048.0, 16.0)), tokens),
        "gpu_memory_utilization": (utilization - 0.10, utilization),
    }
    for name, (low, high) in written.items():
        before = found.get(name, (float(asked[name]), float(asked[name])))
        found[name] = (before[0] if low is None else low, before[1] if high is None else high)
    return found
