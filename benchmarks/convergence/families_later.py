"""Stories in which memory runs out once the KV cache exists, at the start or under load."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.convergence import physics
from benchmarks.convergence.draw import (
    NO_OTHERS,
    Draw,
    Wishes,
    hits,
    is_healthy,
    operator,
    set_graphs,
    truth_and_asked,
)
from benchmarks.convergence.eras import ANY, ERAS, SORTING, UNBUDGETED
from benchmarks.convergence.families_start import LARGE, Story
from benchmarks.convergence.scenario import GIB, MIB, Load, Truth, Value, Wall
from benchmarks.convergence.shapes import MINIMAX

TIGHT = (0.92, 0.94, 0.95, 0.96)


def _graphs_are_real(truth: Truth) -> bool:
    return 0.2 * GIB <= truth.graphs_full <= 6 * GIB


def post_kv_sampler(draw: Draw) -> Story | None:
    """The profiled peak is the sampler's own, so the warm-up misses what graphs took."""
    wishes = Wishes(SORTING, TIGHT, peak_gib=(0.8, 3), seqs=(512, 1024), tokens=(8192,), gpus=LARGE)
    truth, asked = truth_and_asked(draw, wishes)
    need = physics.needs(truth, asked)
    if need.sampler < 1.1 * need.activations:
        return None
    room = -int(draw.between(0.02, 1.2) * GIB)
    truth = set_graphs(truth, asked, Wall.WARMUP, room)
    if not (_graphs_are_real(truth) and hits(truth, asked, Wall.WARMUP)):
        return None
    return truth, operator(asked), Load()


def post_kv_activations(draw: Draw) -> Story | None:
    """The peak is the forward pass's, a little above the sampler's."""
    wishes = Wishes(
        SORTING, TIGHT, peak_gib=(2, 9), seqs=(256, 512, 1024), tokens=(8192,), gpus=LARGE
    )
    truth, asked = truth_and_asked(draw, wishes)
    need = physics.needs(truth, asked)
    if not 1.05 * need.sampler < need.activations < 2 * need.sampler:
        return None
    room = -int(draw.between(0.02, 0.8) * GIB)
    truth = set_graphs(truth, asked, Wall.WARMUP, room)
    if not (_graphs_are_real(truth) and hits(truth, asked, Wall.WARMUP)):
        return None
    return truth, operator(asked), Load()


def capture_unbudgeted(draw: Draw) -> Story | None:
    wishes = Wishes(SORTING, TIGHT, peak_gib=(0.5, 1.5), seqs=(128, 256), tokens=(2048,))
    truth, asked = truth_and_asked(draw, wishes)
    room = -int(draw.between(0.05, 1.8) * GIB)
    truth = set_graphs(truth, asked, Wall.CAPTURE, room)
    if not (_graphs_are_real(truth) and hits(truth, asked, Wall.CAPTURE)):
        return None
    return truth, operator(asked), Load()


def second_runner(draw: Draw) -> Story | None:
    """Model runner V2 before 0.29: graphs in no budget, and no friendly text anywhere."""
    wishes = Wishes(("0.27.1",), TIGHT, peak_gib=(0.6, 3), seqs=(256, 512, 1024))
    truth, asked = truth_and_asked(draw, wishes)
    wall = draw.one((Wall.CAPTURE, Wall.WARMUP))
    truth = set_graphs(truth, asked, wall, -int(draw.between(0.03, 1.5) * GIB))
    if not (_graphs_are_real(truth) and hits(truth, asked, wall)):
        return None
    return truth, operator(asked), Load()


def first_full_batch(draw: Draw) -> Story | None:
    """Starts, since the warm-up needs less than a full batch; dies at the first of those."""
    wishes = Wishes(UNBUDGETED, TIGHT, peak_gib=(1.5, 8), seqs=(128, 256))
    truth, asked = truth_and_asked(draw, wishes)
    room = -int(draw.between(0.03, 1.2) * GIB)
    truth = set_graphs(truth, asked, Wall.FULL_BATCH, room)
    if not (_graphs_are_real(truth) and hits(truth, asked, Wall.FULL_BATCH)):
        return None
    return truth, operator(asked), Load(full_batch_after=draw.between(30, 1200))


def serving_spike(draw: Draw) -> Story | None:
    """Requests that need more than any profile run did: log probabilities, images."""
    truth, asked = truth_and_asked(draw, Wishes(ANY, TIGHT, peak_gib=(0.8, 4)))
    if not is_healthy(truth, asked):
        return None
    left = physics.slacks(truth, asked, NO_OTHERS, truth.jitter)[Wall.FULL_BATCH]
    spike = left + draw.gib(0.05, 1.6)
    after = draw.between(200, 1500) if draw.chance(0.7) else draw.between(2000, 9000)
    return truth, operator(asked), Load(spike_bytes=spike, spike_after=after)


def seed_incident(draw: Draw) -> Story | None:
    """MiniMax-M2.5 over four GPUs of 95.6 GiB, as it happened, with a little spread."""
    era = ERAS[draw.one(("0.11.2", "0.13.0", "0.15.1", "0.15.1"))]
    asked: dict[str, Value] = {
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.95,
        "max_model_len": 131_072,
    }
    peak = int(draw.between(3.6, 6.0) * GIB)
    truth = Truth(
        era=era,
        total=97_887 * MIB,
        ranks=4,
        weights=int(draw.between(53.3, 53.8) * GIB),
        context=560 * MIB,
        nccl=int(draw.between(720, 820) * MIB),
        act_fixed=int(0.1 * GIB),
        act_per_token=peak // 8192,
        vocab=MINIMAX.vocab,
        row_factor=draw.between(0.97, 1.03),
        layers=MINIMAX.layers,
        kv_heads=MINIMAX.kv_heads,
        head_dim=MINIMAX.head_dim,
        graphs_full=draw.gib(2.4, 3.4),
        estimate_factor=1.0,
        fragmentation=draw.between(0.02, 0.06),
        drift=int(draw.between(250, 450) * MIB),
        jitter=int(draw.between(5, 40) * MIB),
        typical_tokens=draw.one((2048, 4096, 8192)),
        gpu_name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
        model="/srv/models/minimax-m2.5",
        architecture=MINIMAX.architecture,
    )
    if not hits(truth, asked, Wall.WARMUP):
        return None
    operated = operator(asked, lowest=0.85)
    operated = replace(
        operated,
        ranges={**operated.ranges, "max_num_seqs": (128, 1024)},
        written={**operated.written, "max_num_seqs": (128, None)},
    )
    return truth, operated, Load(full_batch_after=draw.between(60, 900))
