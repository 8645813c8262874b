"""Stories in which a start fails before the KV cache exists, or nothing fails at all."""

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
    set_weights,
    truth_and_asked,
)
from benchmarks.convergence.eras import ANY, BUDGETED, SORTING
from benchmarks.convergence.scenario import GIB, Load, Operator, Truth, Wall
from benchmarks.convergence.shapes import GPUS, HYBRID, LARGE_BYTES, MINIMAX

Story = tuple[Truth, Operator, Load]
LARGE = tuple(gpu for gpu in GPUS if gpu[1] >= LARGE_BYTES)


def weights_too_big(draw: Draw) -> Story | None:
    truth, asked = truth_and_asked(draw, Wishes(ANY))
    fits = physics.slacks(truth, asked, NO_OTHERS)[Wall.LOAD] + truth.weights
    truth = replace(truth, weights=int(fits * draw.between(1.01, 1.6)))
    return truth, operator(asked), Load()


def expert_parallel_over_two(draw: Draw) -> Story | None:
    wishes = Wishes(ANY, gpus=LARGE, shapes=(MINIMAX,), ranks=(2,))
    truth, asked = truth_and_asked(draw, wishes)
    weights = int(truth.total * draw.between(1.02, 1.3))
    asked["enable_expert_parallel"] = True
    truth = replace(truth, weights=weights, expert_parallel=True)
    return truth, operator(asked), Load()


def profile_activations(draw: Draw) -> Story | None:
    wishes = Wishes(ANY, peak_gib=(4, 14), tokens=(8192, 16384), seqs=(128, 256, 256))
    truth, asked = truth_and_asked(draw, wishes)
    need = physics.needs(truth, asked)
    if need.sampler > 0.6 * need.activations:
        return None
    room = -int(need.activations * draw.between(0.02, 0.5))
    truth = set_weights(truth, asked, Wall.PROFILE_FORWARD, room)
    if not hits(truth, asked, Wall.PROFILE_FORWARD):
        return None
    return truth, operator(asked), Load()


def profile_sampler(draw: Draw) -> Story | None:
    wishes = Wishes(SORTING, peak_gib=(0.8, 3), seqs=(1024,), tokens=(8192,), gpus=LARGE)
    truth, asked = truth_and_asked(draw, wishes)
    need = physics.needs(truth, asked)
    if need.activations > 0.6 * need.sampler:
        return None
    room = -int(need.sampler * draw.between(0.02, 0.5))
    truth = set_weights(truth, asked, Wall.PROFILE_SAMPLER, room)
    if not hits(truth, asked, Wall.PROFILE_SAMPLER):
        return None
    return truth, operator(asked), Load()


def kv_short_with_headroom(draw: Draw) -> Story | None:
    """One request misses so much, and the operator allows a higher utilization."""
    wishes = Wishes(ANY, utilizations=(0.80, 0.85, 0.88, 0.90))
    truth, asked = truth_and_asked(draw, wishes)
    need = physics.needs(truth, asked)
    room = -int(min(0.9 * need.kv_request, 3 * GIB) * draw.between(0.003, 1.0))
    truth = set_weights(truth, asked, Wall.KV_PLAN, room)
    if not hits(truth, asked, Wall.KV_PLAN):
        return None
    return truth, operator(asked, highest=draw.one((0.95, 0.96, 0.97))), Load()


def kv_short_without_headroom(draw: Draw) -> Story | None:
    """The bytes have to come from the profiled peak, or from the context where that is allowed."""
    sampler = draw.chance(0.5)
    wishes = (
        Wishes(SORTING, peak_gib=(0.8, 2.5), seqs=(1024,), tokens=(8192,), gpus=LARGE)
        if sampler
        else Wishes(ANY, peak_gib=(3, 9), seqs=(128, 256), tokens=(8192, 16384))
    )
    truth, asked = truth_and_asked(draw, wishes)
    need = physics.needs(truth, asked)
    shorter = 2048 if draw.chance(0.4) else None
    room = -int(min(0.9 * need.kv_request, 0.7 * need.peak) * draw.between(0.003, 1.0))
    truth = set_weights(truth, asked, Wall.KV_PLAN, room)
    if not hits(truth, asked, Wall.KV_PLAN):
        return None
    return truth, operator(asked, shorter=shorter), Load()


def no_cache_blocks(draw: Draw) -> Story | None:
    """Nothing is left for the cache; sequences and tokens both hold too much."""
    wishes = Wishes(SORTING, peak_gib=(2.5, 7), seqs=(512, 1024), tokens=(8192, 16384), gpus=LARGE)
    truth, asked = truth_and_asked(draw, wishes)
    need = physics.needs(truth, asked)
    room = -need.kv_request - int(need.peak * draw.between(0.01, 0.45))
    truth = set_weights(truth, asked, Wall.KV_PLAN, room)
    if not hits(truth, asked, Wall.KV_PLAN):
        return None
    highest = 0.97 if draw.chance(0.4) else None
    return truth, operator(asked, highest=highest), Load()


def hybrid_state_blocks(draw: Draw) -> Story | None:
    wishes = Wishes(BUDGETED, seqs=(256, 512, 1024), shapes=(HYBRID,), tokens=(8192,))
    truth, asked = truth_and_asked(draw, wishes)
    need = physics.needs(truth, asked)
    kv = physics.available_kv(truth, asked, need, NO_OTHERS)
    if kv < 4 * GIB:
        return None
    seqs = int(asked["max_num_seqs"])
    truth = replace(truth, state_page=int(kv / (seqs * draw.between(0.2, 0.97))))
    if not hits(truth, asked, Wall.STATE_BLOCKS):
        return None
    return truth, operator(asked), Load()


def graph_budget_after_upgrade(draw: Draw) -> Story | None:
    """Without the estimate in the budget, as before 0.20, these settings had started."""
    wishes = Wishes(
        BUDGETED, utilizations=(0.88, 0.90, 0.92), graphs_gib=(0.8, 3.0), seqs=(256, 512)
    )
    truth, asked = truth_and_asked(draw, wishes)
    need = physics.needs(truth, asked)
    room = -int(need.estimate * draw.between(0.05, 0.95))
    truth = set_weights(truth, asked, Wall.KV_PLAN, room)
    if not hits(truth, asked, Wall.KV_PLAN):
        return None
    return truth, operator(asked, highest=draw.one((0.95, 0.96, 0.97))), Load()


def bad_flag(draw: Draw) -> Story | None:
    truth, asked = truth_and_asked(draw, Wishes(ANY))
    flag = draw.one(("--enable-turbo", "--max-num-sequences 256", "--kv-cache-size 40"))
    return truth, replace(operator(asked), bad_flag=flag), Load()


def healthy(draw: Draw) -> Story | None:
    truth, asked = truth_and_asked(draw, Wishes(ANY))
    if not is_healthy(truth, asked):
        return None
    return truth, operator(asked), Load()


def injected_prompt(draw: Draw) -> Story | None:
    """A user's prompt quotes an out-of-memory error; later the engine core is killed."""
    truth, asked = truth_and_asked(draw, Wishes(ANY))
    if not is_healthy(truth, asked):
        return None
    prompt = draw.one(
        (
            (
                "explain: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB. "
                "GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is free."
            ),
            (
                "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
                "requests. Please try lowering `max_num_seqs`\nTraceback (most recent call last):"
            ),
            (
                "ValueError: No available memory for the cache blocks. Try increasing "
                "`gpu_memory_utilization` when initializing the engine."
            ),
        )
    )
    exits = draw.one((1, 1, 1, 2))
    return truth, operator(asked), Load(exits=exits, prompts=(prompt,))
