"""The stories, of equal share: which wall the asked settings hit, and what may be moved."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from benchmarks.held_back.draw import (
    ANY,
    BUDGETED,
    LARGE,
    SORTING,
    WIDE,
    Drawn,
    Wishes,
    draw,
    ranges,
    with_room,
)
from benchmarks.held_back.needs import knobs_of, needs, request_bytes
from benchmarks.held_back.rooms import Wall, first_wall, rooms
from benchmarks.held_back.scenario import Moves, Neighbour, Scenario
from benchmarks.held_back.truth import GIB, Truth

TRIES = 4000


@dataclass(frozen=True, slots=True)
class Story:
    """What a family makes of a draw."""

    drawn: Drawn
    written: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)
    share: bool = False
    neighbour: Neighbour | None = None
    bad_flag: str = ""


Family = Callable[[random.Random], Story | None]


def scenario(seed: int, number: int, family: str | None = None) -> Scenario:
    """The same for ever for a seed and a number; families take turns."""
    name = list(FAMILIES)[number % len(FAMILIES)] if family is None else family
    source = random.Random(f"held back/{seed}/{number}/{name}")
    for _ in range(TRIES):
        if (story := FAMILIES[name](source)) is not None:
            return _scenario(number, name, story)
    raise RuntimeError(f"cannot draw a scenario of {name!r}: {TRIES} tries were not enough")


def _scenario(number: int, name: str, story: Story) -> Scenario:
    drawn = story.drawn
    # The file says a little less than a rank comes to hold: padding, scales, buffers.
    checkpoint = int(sum(drawn.truth.weights) * 0.992)
    return Scenario(
        number=number,
        family=name,
        truth=drawn.truth,
        model=replace(drawn.model, checkpoint_bytes=checkpoint),
        gpu_name=drawn.gpu_name,
        asked=drawn.asked,
        ranges=ranges(drawn.asked, story.written),
        written=story.written,
        share=story.share,
        neighbour=story.neighbour,
        bad_flag=story.bad_flag,
    )


def _at(drawn: Drawn, wall: Wall, truth: Truth) -> Drawn | None:
    """The draw with this truth if every launch of the asked settings ends at that wall."""
    ends = {first_wall(truth, drawn.asked, 0, launch) for launch in (None, 1, 2, 3)}
    return replace(drawn, truth=truth) if ends == {wall} else None


def _story(drawn: Drawn | None, highest: float | None = None) -> Story | None:
    if drawn is None:
        return None
    written: dict[str, tuple[float | None, float | None]] = (
        {} if highest is None else {"gpu_memory_utilization": (None, highest)}
    )
    return Story(drawn, written)


def _mostly_curable(source: random.Random, drawn: Drawn | None, highest: float) -> Drawn | None:
    """Most of those that the smallest batch would not cure either are left out."""
    if drawn is None or source.random() < 0.03:
        return drawn
    bounds = ranges(drawn.asked, {})
    least = {
        **drawn.asked,
        "max_num_seqs": int(bounds["max_num_seqs"][0]),
        "max_num_batched_tokens": int(bounds["max_num_batched_tokens"][0]),
        "gpu_memory_utilization": highest,
    }
    return drawn if rooms(drawn.truth, least, 0, None)[Wall.KV_PLAN] >= 0 else None


def _utilization(drawn: Drawn) -> float:
    return float(drawn.asked["gpu_memory_utilization"])


def _worst(drawn: Drawn) -> tuple[int, int]:
    """Bytes of forward pass and sampler as asked."""
    need = needs(drawn.truth, knobs_of(drawn.truth, drawn.asked), 0, None)
    return sum(need.forward), sum(need.sampler)


def profiled_sampler(source: random.Random) -> Story | None:
    wishes = Wishes(SORTING, sequences=(768, 1024, 1536), tokens=(4096, 8192), models=WIDE)
    drawn = draw(source, wishes)
    forward, sampler = _worst(drawn)
    if forward > 0.5 * sampler:
        return None
    room = -int(sampler * source.uniform(0.03, 0.45))
    truth = with_room(drawn.truth, drawn.asked, Wall.SAMPLER, room)
    hit = _at(drawn, Wall.SAMPLER, truth)
    return _story(_mostly_curable(source, hit, _utilization(drawn)))


def profiled_activations(source: random.Random) -> Story | None:
    wishes = Wishes(forward_gib=(4, 12), tokens=(8192, 12288, 16384), sequences=(96, 160, 256))
    drawn = draw(source, wishes)
    forward, sampler = _worst(drawn)
    if sampler > 0.5 * forward:
        return None
    room = -int(forward * source.uniform(0.03, 0.4))
    truth = with_room(drawn.truth, drawn.asked, Wall.FORWARD, room)
    hit = _at(drawn, Wall.FORWARD, truth)
    return _story(_mostly_curable(source, hit, _utilization(drawn)))


def _tight(drawn: Drawn, wall: Wall, missing_gib: float) -> Story | None:
    """A budget so high that so much is missing at that wall."""
    room = rooms(drawn.truth, drawn.asked, 0, None)[wall] + missing_gib * GIB
    asked = round(_utilization(drawn) + room / drawn.truth.total, 3)
    drawn.asked["gpu_memory_utilization"] = asked
    if not 0.8 <= asked <= 0.99:
        return None
    return _story(_at(drawn, wall, drawn.truth))


def warmed_up_sampler(source: random.Random) -> Story | None:
    wishes = Wishes(
        SORTING,
        utilizations=(0.93, 0.955, 0.97),
        sequences=(512, 768, 1024),
        models=WIDE,
        gpus=LARGE,
        tokens=(4096, 8192),
    )
    return _tight(draw(source, wishes), Wall.WARMUP, source.uniform(0.05, 2.5))


def _capture(source: random.Random, wishes: Wishes, estimate: float) -> Story | None:
    """Graphs larger than the batch, and a budget that an operator chose too high for them."""
    drawn = draw(source, wishes)
    truth = replace(drawn.truth, estimate_factor=estimate)
    return _tight(replace(drawn, truth=truth), Wall.CAPTURE, source.uniform(0.03, 1.2))


_LARGE_GRAPHS = Wishes(
    SORTING,
    forward_gib=(0.3, 1.2),
    graphs_gib=(1.2, 4.0),
    sequences=(64, 96, 160, 256),
    tokens=(2048, 4096),
)


def capture_without_budget(source: random.Random) -> Story | None:
    return _capture(source, _LARGE_GRAPHS, 0.0)


def capture_beyond_budget(source: random.Random) -> Story | None:
    """The estimate is in the budget and still too small."""
    wishes = replace(_LARGE_GRAPHS, versions=BUDGETED)
    return _capture(source, wishes, source.uniform(0.2, 0.7))


def kv_short_with_headroom(source: random.Random) -> Story | None:
    drawn = draw(source, Wishes(utilizations=(0.8, 0.84, 0.87)))
    request = request_bytes(drawn.truth, knobs_of(drawn.truth, drawn.asked))
    room = -int(request * source.uniform(0.01, 0.85))
    truth = with_room(drawn.truth, drawn.asked, Wall.KV_PLAN, room)
    return _story(_at(drawn, Wall.KV_PLAN, truth), source.choice((0.94, 0.96)))


def kv_short_without_headroom(source: random.Random) -> Story | None:
    wishes = Wishes(forward_gib=(3, 8), tokens=(8192, 12288), sequences=(128, 256, 512))
    drawn = draw(source, wishes)
    request = request_bytes(drawn.truth, knobs_of(drawn.truth, drawn.asked))
    peak = max(_worst(drawn))
    room = -int(min(request * 0.85, peak * 0.5) * source.uniform(0.01, 1))
    truth = with_room(drawn.truth, drawn.asked, Wall.KV_PLAN, room)
    hit = _at(drawn, Wall.KV_PLAN, truth)
    return _story(_mostly_curable(source, hit, _utilization(drawn)))


def no_cache_blocks(source: random.Random) -> Story | None:
    wishes = Wishes(forward_gib=(3, 9), tokens=(8192, 16384), sequences=(256, 512, 1024))
    drawn = draw(source, wishes)
    request = request_bytes(drawn.truth, knobs_of(drawn.truth, drawn.asked))
    room = -request - int(max(_worst(drawn)) * source.uniform(0.01, 0.3))
    truth = with_room(drawn.truth, drawn.asked, Wall.KV_PLAN, room)
    highest = source.choice((None, 0.96))
    hit = _at(drawn, Wall.KV_PLAN, truth)
    top = max(_utilization(drawn), highest or 0)
    return _story(_mostly_curable(source, hit, top), None if highest is None else top)


def first_full_batch(source: random.Random) -> Story | None:
    """A real full batch needs more than profiling saw: nothing runs attention there."""
    drawn = draw(source, Wishes(ANY, utilizations=(0.91, 0.93, 0.955), forward_gib=(2, 7)))
    return _tight(drawn, Wall.FULL_BATCH, source.uniform(0.05, 1.5))


def weights_too_big(source: random.Random) -> Story | None:
    drawn = draw(source, Wishes())
    room = -int(drawn.truth.total * source.uniform(0.02, 0.7))
    truth = with_room(drawn.truth, drawn.asked, Wall.LOAD, room)
    return Story(replace(drawn, truth=truth))


def bad_flag(source: random.Random) -> Story | None:
    flag = source.choice(("--max-sequences 64", "--enable-fast-mode", "--kv-memory 20"))
    return Story(draw(source, Wishes()), bad_flag=flag)


def _sound(source: random.Random, wishes: Wishes, others: int = 0) -> Drawn | None:
    drawn = draw(source, wishes)
    return drawn if first_wall(drawn.truth, drawn.asked, others, None) is None else None


def healthy(source: random.Random) -> Story | None:
    return _story(_sound(source, Wishes()))


def neighbour_leaves(source: random.Random) -> Story | None:
    if (drawn := _sound(source, Wishes())) is None:
        return None
    size = int(drawn.truth.total * source.uniform(0.2, 0.7))
    return Story(drawn, neighbour=Neighbour(size, 0, Moves.LEAVES))


def neighbour_stays(source: random.Random) -> Story | None:
    if (drawn := _sound(source, Wishes(weights=(0.2, 0.45)))) is None:
        return None
    room = rooms(drawn.truth, drawn.asked, 0, None)[Wall.INIT]
    size = room + int(drawn.truth.total * source.uniform(0.01, 0.2))
    share = source.random() < 0.7
    written: dict[str, tuple[float | None, float | None]] = (
        {"gpu_memory_utilization": (0.4, None)} if share else {}
    )
    return Story(drawn, written, share, Neighbour(size, size, Moves.STAYS))


def neighbour_grows(source: random.Random) -> Story | None:
    """It takes, once the engine is ready, what the idle engine leaves free, and keeps it."""
    wishes = Wishes(utilizations=(0.8, 0.84, 0.87), weights=(0.25, 0.5), forward_gib=(2, 6))
    drawn = draw(source, wishes)
    now = int(drawn.truth.total * source.uniform(0.01, 0.04))
    if first_wall(drawn.truth, drawn.asked, now, None) is not None:
        return None
    found = rooms(drawn.truth, drawn.asked, now, None)
    idle, room = found[Wall.CAPTURE], found[Wall.FULL_BATCH]
    later = now + room + int((idle - room) * source.uniform(0.1, 0.8))
    neighbour = Neighbour(now, later, Moves.GROWS)
    return Story(drawn, {"gpu_memory_utilization": (0.4, None)}, share=True, neighbour=neighbour)


FAMILIES: Mapping[str, Family] = {
    "profiled sampler": profiled_sampler,
    "profiled activations": profiled_activations,
    "post-KV sampler": warmed_up_sampler,
    "capture before 0.20": capture_without_budget,
    "capture after 0.20": capture_beyond_budget,
    "KV short, headroom": kv_short_with_headroom,
    "KV short, no headroom": kv_short_without_headroom,
    "no cache blocks": no_cache_blocks,
    "first full batch": first_full_batch,
    "weights too big": weights_too_big,
    "bad flag": bad_flag,
    "healthy": healthy,
    "neighbour leaves": neighbour_leaves,
    "neighbour stays": neighbour_stays,
    "neighbour grows": neighbour_grows,
}
