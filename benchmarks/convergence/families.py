"""The families in equal shares, and how a numbered scenario is drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.convergence import families_beside as beside
from benchmarks.convergence import families_later as later
from benchmarks.convergence import families_start as start
from benchmarks.convergence.draw import Draw
from benchmarks.convergence.families_start import Story
from benchmarks.convergence.oracle import best
from benchmarks.convergence.scenario import Neighbour, Scenario

TRIES = 4000
Drawn = tuple[Story, Neighbour]

_STORIES: Mapping[str, Callable[[Draw], Story | None]] = {
    "weights too big": start.weights_too_big,
    "TP2 with EP": start.expert_parallel_over_two,
    "profile activations": start.profile_activations,
    "profile sampler": start.profile_sampler,
    "post-KV sampler": later.post_kv_sampler,
    "post-KV activations": later.post_kv_activations,
    "graph capture": later.capture_unbudgeted,
    "second model runner": later.second_runner,
    "KV short, headroom": start.kv_short_with_headroom,
    "KV short, no headroom": start.kv_short_without_headroom,
    "no cache blocks": start.no_cache_blocks,
    "hybrid state blocks": start.hybrid_state_blocks,
    "serving out of memory": later.serving_spike,
    "first full batch": later.first_full_batch,
    "seed incident": later.seed_incident,
    "graph budget after upgrade": start.graph_budget_after_upgrade,
    "injected prompt": start.injected_prompt,
    "bad flag": start.bad_flag,
    "healthy": start.healthy,
}
_BESIDE: Mapping[str, Callable[[Draw], Drawn | None]] = {
    "neighbour leaves": beside.neighbour_leaves,
    "neighbour stays": beside.neighbour_stays,
    "neighbour grows": beside.neighbour_grows,
    "orphan lingers": beside.orphan_lingers,
    "profiling disturbed": beside.profiling_disturbed,
}
FAMILIES = (*_STORIES, *_BESIDE)
INFEASIBLE = frozenset({"weights too big", "TP2 with EP", "bad flag"})
"""Families that nothing can cure; all others must have a cure, but for these shares."""
MAY_BE_INFEASIBLE = {"KV short, no headroom": 0.25, "neighbour stays": 1.0}
"""How often a scenario without a cure is kept; elsewhere it is drawn again."""


def scenario(seed: int, number: int, family: str | None = None) -> Scenario:
    """The scenario of this number: families in turn, so that shares are equal."""
    name = family or FAMILIES[number % len(FAMILIES)]
    label = f"{seed}/{number}/{name}"
    draw = Draw(label)
    for _ in range(TRIES):
        drawn = _drawn(name, draw)
        if drawn is None or drawn[0][0].weights <= 0:
            continue
        (truth, operated, load), neighbour = drawn
        found = Scenario(number, name, label, truth, operated, neighbour, load)
        if name in INFEASIBLE or best(found).feasible:
            return found
        if draw.chance(MAY_BE_INFEASIBLE.get(name, 0.0)):
            return found
    raise RuntimeError(f"cannot draw scenario {number}: no luck with {name} in {TRIES} tries")


def _drawn(name: str, draw: Draw) -> tuple[Story, Neighbour | None] | None:
    if name in _BESIDE:
        return _BESIDE[name](draw)
    story = _STORIES[name](draw)
    return None if story is None else (story, None)
