"""Stories with memory that is not the engine's own: neighbours and what dead engines left."""

from __future__ import annotations

from benchmarks.convergence import physics
from benchmarks.convergence.draw import (
    NO_OTHERS,
    Draw,
    Wishes,
    is_healthy,
    operator,
    truth_and_asked,
)
from benchmarks.convergence.eras import ANY
from benchmarks.convergence.families_start import LARGE, Story
from benchmarks.convergence.physics import Others
from benchmarks.convergence.scenario import Load, Move, Neighbour, Wall

Beside = tuple[Story, Neighbour]


def _alone(draw: Draw, wishes: Wishes) -> Story | None:
    truth, asked = truth_and_asked(draw, wishes)
    if not is_healthy(truth, asked):
        return None
    return truth, operator(asked), Load()


def neighbour_leaves(draw: Draw) -> Beside | None:
    story = _alone(draw, Wishes(ANY))
    if story is None:
        return None
    size = int(story[0].total * draw.between(0.12, 0.6))
    move = Move(0, at_seconds=draw.between(30, 1100))
    return story, Neighbour(size, (move,))


def neighbour_stays(draw: Draw) -> Beside | None:
    """Where sharing is allowed the operator has also written how far utilization may go."""
    wishes = Wishes(ANY, weights=(0.2, 0.5))
    truth, asked = truth_and_asked(draw, wishes)
    if not is_healthy(truth, asked):
        return None
    room = physics.slacks(truth, asked, NO_OTHERS)
    size = room[Wall.INIT] + int(truth.total * draw.between(0.01, 0.22))
    share = draw.chance(0.8)
    operated = operator(asked, lowest=0.4 if share else None, share=share)
    return (truth, operated, Load()), Neighbour(size)


def neighbour_grows(draw: Draw) -> Beside | None:
    """It takes more once the KV cache has been planned, and keeps it."""
    wishes = Wishes(ANY, utilizations=(0.80, 0.85, 0.88, 0.90), weights=(0.25, 0.55))
    truth, asked = truth_and_asked(draw, wishes)
    start = int(truth.total * draw.between(0.01, 0.05))
    if not is_healthy(truth, asked, Others(start, start, start)):
        return None
    left = physics.slacks(truth, asked, Others(start, start, start))[Wall.FULL_BATCH]
    # it can take no more than is free of an idle engine: what a full batch would need
    idle = physics.needs(truth, asked).peak
    grown = start + left + min(draw.gib(0.3, 5), int(0.95 * idle))
    at = draw.one((Wall.KV_ALLOC, Wall.CAPTURE, Wall.WARMUP, Wall.FULL_BATCH))
    operated = operator(asked, lowest=0.4, share=True)
    return (truth, operated, Load()), Neighbour(start, (Move(grown, at_wall=at),))


def orphan_lingers(draw: Draw) -> Beside | None:
    """A dead engine's memory: of a process that still lives, or of none while it comes back."""
    story = _alone(draw, Wishes(ANY))
    if story is None:
        return None
    kind = draw.one(("remains", "ownerless"))
    size = int(story[0].total * draw.between(0.3, 0.95))
    if kind == "ownerless":
        return story, Neighbour(size, (Move(0, at_seconds=draw.between(10, 240)),), kind)
    return story, Neighbour(size, (Move(0, at_seconds=draw.between(200, 1500)),), kind)


def profiling_disturbed(draw: Draw) -> Beside | None:
    """A neighbour gives back more than the engine has taken, exactly while it measures."""
    wishes = Wishes(ANY, utilizations=(0.5, 0.55, 0.6), weights=(0.08, 0.2), gpus=LARGE)
    truth, asked = truth_and_asked(draw, wishes)
    room = physics.slacks(truth, asked, NO_OTHERS)[Wall.INIT]
    size = truth.weights + draw.gib(0.5, 6)
    if size > room or not is_healthy(truth, asked):
        return None
    neighbour = Neighbour(size, (Move(0, at_wall=Wall.PROFILE_SAMPLER),))
    return (truth, operator(asked), Load()), neighbour
