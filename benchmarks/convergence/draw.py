"""Draws the values that all stories share, and sets one so that a wall is hit by so much."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from benchmarks.convergence import physics
from benchmarks.convergence.eras import ERAS
from benchmarks.convergence.physics import Others
from benchmarks.convergence.scenario import GIB, MIB, Operator, Settings, Truth, Value, Wall
from benchmarks.convergence.shapes import GPUS, SHAPES, Shape

NO_OTHERS = Others()
Item = TypeVar("Item")


class Draw:
    """A seeded source of values; the same seed gives the same scenario for ever."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def between(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)

    def gib(self, low: float, high: float) -> int:
        return int(self.random.uniform(low, high) * GIB)

    def one(self, items: Sequence[Item]) -> Item:
        return self.random.choice(items)

    def chance(self, share: float) -> bool:
        return self.random.random() < share


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a story wants of the common draw; the rest is free."""

    eras: Sequence[str]
    utilizations: Sequence[float] = (0.88, 0.90, 0.92, 0.94, 0.95, 0.96)
    weights: tuple[float, float] = (0.35, 0.75)
    peak_gib: tuple[float, float] = (0.8, 5.0)
    graphs_gib: tuple[float, float] = (0.4, 1.6)
    seqs: Sequence[int] = (128, 256, 256, 512, 1024)
    tokens: Sequence[int] = (2048, 8192, 8192, 16384)
    ranks: Sequence[int] = (1, 1, 2, 4)
    gpus: Sequence[tuple[str, int]] = GPUS
    shapes: Sequence[Shape] = SHAPES


def truth_and_asked(draw: Draw, wishes: Wishes) -> tuple[Truth, dict[str, Value]]:
    """A host, a model and settings; whether it all fits is the story's business."""
    era = ERAS[draw.one(wishes.eras)]
    shape, (gpu_name, total) = draw.one(wishes.shapes), draw.one(wishes.gpus)
    ranks = draw.one([one for one in wishes.ranks if one <= shape.kv_heads])
    tokens = draw.one(wishes.tokens)
    asked: dict[str, Value] = {
        "max_num_seqs": min(draw.one(wishes.seqs), tokens),
        "max_num_batched_tokens": tokens,
        "gpu_memory_utilization": draw.one(wishes.utilizations),
        "max_model_len": draw.one((8192, 16384, 32768, 65536, 131072)),
    }
    peak = draw.gib(*wishes.peak_gib)
    fixed = draw.gib(0.05, 0.3)
    truth = Truth(
        era=era,
        total=total,
        ranks=ranks,
        weights=int(total * draw.between(*wishes.weights)),
        context=int(draw.between(380, 620) * MIB),
        nccl=int(draw.between(400, 900) * MIB) if ranks > 1 else 0,
        act_fixed=min(fixed, peak // 4),
        act_per_token=max(1, (peak - min(fixed, peak // 4)) // tokens),
        vocab=shape.vocab,
        row_factor=draw.between(0.93, 1.07),
        layers=shape.layers,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        graphs_full=draw.gib(*wishes.graphs_gib),
        estimate_factor=draw.between(0.85, 1.15),
        fragmentation=draw.between(0.01, 0.07),
        drift=int(draw.between(30, 350) * MIB),
        jitter=int(draw.between(5, 50) * MIB),
        typical_tokens=draw.one((1024, 2048, 4096, 8192)),
        gpu_name=gpu_name,
        model=f"/srv/models/{shape.name}",
        architecture=shape.architecture,
    )
    length = int(asked["max_model_len"])
    while length > 4096 and length * truth.kv_per_token > 0.12 * total:
        length //= 2
    asked["max_model_len"] = length
    return truth, asked


def operator(
    asked: Settings,
    *,
    highest: float | None = None,
    lowest: float | None = None,
    shorter: int | None = None,
    share: bool = False,
) -> Operator:
    """Default bounds, but for what the story says that the operator wrote."""
    seqs, tokens = int(asked["max_num_seqs"]), int(asked["max_num_batched_tokens"])
    utilization = float(asked["gpu_memory_utilization"])
    top = utilization if highest is None else max(highest, utilization)
    bottom = round(utilization - 0.10, 4) if lowest is None else lowest
    least = max(16, seqs // 8)
    ranges: dict[str, tuple[float, float]] = {
        "max_num_seqs": (min(seqs, least), seqs),
        "max_num_batched_tokens": (min(tokens, 2048), tokens),
        "gpu_memory_utilization": (bottom, top),
    }
    written: dict[str, tuple[float | None, float | None]] = {}
    if highest is not None or lowest is not None:
        written["gpu_memory_utilization"] = (lowest, None if highest is None else top)
    if shorter is not None:
        ranges["max_model_len"] = (shorter, float(asked["max_model_len"]))
        written["max_model_len"] = (float(shorter), None)
    return Operator(asked, ranges, written, share)


def set_weights(truth: Truth, asked: Settings, wall: Wall, room: int) -> Truth:
    """The truth with weights such that exactly so much room is left at the wall."""
    has = physics.slacks(truth, asked, NO_OTHERS)[wall]
    return replace(truth, weights=truth.weights + has - room)


def set_graphs(truth: Truth, asked: Settings, wall: Wall, room: int) -> Truth:
    """The same by the size of the CUDA graphs; the settings' share of all sizes is kept."""
    has = physics.slacks(truth, asked, NO_OTHERS)[wall]
    need = physics.needs(truth, asked)
    graphs = need.graphs + has - room
    full = graphs * physics.ALL_SIZES // max(1, need.sizes)
    return replace(truth, graphs_full=full)


def hits(
    truth: Truth, asked: Settings, wall: Wall, others: Others = NO_OTHERS, spike: int = 0
) -> bool:
    """Whether the asked settings fail there first, with any noise."""
    return all(
        physics.first_wall(physics.slacks(truth, asked, others, noise, spike), wall) is wall
        for noise in (-truth.jitter, truth.jitter)
    )


def is_healthy(truth: Truth, asked: Settings, others: Others = NO_OTHERS, spike: int = 0) -> bool:
    room = physics.slacks(truth, asked, others, truth.jitter, spike)
    return physics.first_wall(room, Wall.SPIKE) is None
