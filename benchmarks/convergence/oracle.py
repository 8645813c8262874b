"""Finds the best settings by trying all of them on the hidden truth; judges what policies chose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.convergence import physics
from benchmarks.convergence.physics import Others
from benchmarks.convergence.scenario import BLOCK_TOKENS, Scenario, Settings, Value, Wall
from benchmarks.convergence.world import steady_others

SHARES = (1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.1875, 0.125)
"""Of the sequences asked for; vLLM takes any number, the capacity between two is interpolated."""
STEPS = 10_000
"""Utilization has four decimals."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best settings that stay up, their capacity, and whether the asked ones do."""

    settings: Settings | None
    capacity: float
    asked_stays: bool

    @property
    def feasible(self) -> bool:
        return self.settings is not None


def final_others(scenario: Scenario) -> Others:
    """What others hold once everything has happened that will."""
    level = steady_others(scenario.neighbour)
    return Others(level, level, level)


def stays_up(scenario: Scenario, settings: Settings, others: Others | None = None) -> bool:
    """Whether every wall has room, the full batch and the spike included, at the worst noise."""
    if scenario.operator.bad_flag:
        return False
    room = physics.slacks(
        scenario.truth,
        settings,
        final_others(scenario) if others is None else others,
        scenario.truth.jitter,
        scenario.load.spike_bytes,
    )
    room = {wall: left for wall, left in room.items() if _happens(scenario, wall)}
    return physics.first_wall(room, Wall.SPIKE) is None


def _happens(scenario: Scenario, wall: Wall) -> bool:
    if wall is Wall.FULL_BATCH:
        return scenario.load.full_batch_after is not None
    return wall is not Wall.SPIKE or scenario.load.spike_bytes > 0


def highest_utilization(scenario: Scenario, settings: Settings, low: float, high: float) -> float:
    """The highest utilization below which nothing after the KV cache fails; by bisection."""
    truth, others = scenario.truth, final_others(scenario)

    def too_high(step: int) -> bool:
        tried = {**settings, "gpu_memory_utilization": step / STEPS}
        room = physics.slacks(truth, tried, others, truth.jitter, scenario.load.spike_bytes)
        return any(
            room[wall] < 0
            for wall in (Wall.INIT, Wall.KV_ALLOC, Wall.CAPTURE, Wall.WARMUP, *_LOADED)
            if _happens(scenario, wall)
        )

    bottom, top = round(low * STEPS), round(high * STEPS)
    if not too_high(top):
        return top / STEPS
    while top - bottom > 1:
        middle = (bottom + top) // 2
        bottom, top = (bottom, middle) if too_high(middle) else (middle, top)
    return bottom / STEPS


_LOADED = (Wall.FULL_BATCH, Wall.SPIKE)


def candidates(scenario: Scenario) -> Iterator[Settings]:
    """Every combination of sequences, tokens and length within bounds, at its best utilization."""
    operator, asked = scenario.operator, scenario.operator.asked
    seqs = physics.number(asked, "max_num_seqs")
    low, high = operator.ranges["gpu_memory_utilization"]
    for share in SHARES:
        some = max(1, int(seqs * share))
        if some < operator.ranges["max_num_seqs"][0]:
            continue
        for tokens in _halvings(scenario):
            if tokens < some and tokens < physics.number(asked, "max_num_batched_tokens"):
                continue
            tried: dict[str, Value] = {
                **asked,
                "max_num_seqs": some,
                "max_num_batched_tokens": tokens,
            }
            tried["gpu_memory_utilization"] = highest_utilization(scenario, tried, low, high)
            yield tried
            if (length := _longest(scenario, tried)) is not None:
                yield {**tried, "max_model_len": length}


def _halvings(scenario: Scenario) -> list[int]:
    low, high = scenario.operator.ranges["max_num_batched_tokens"]
    found = [int(high)]
    while found[-1] // 2 >= low:
        found.append(found[-1] // 2)
    return found


def _longest(scenario: Scenario, settings: Settings) -> int | None:
    bounds = scenario.operator.ranges.get("max_model_len")
    if bounds is None:
        return None
    others = final_others(scenario)
    tokens = physics.kv_tokens(scenario.truth, settings, others) // BLOCK_TOKENS * BLOCK_TOKENS
    tokens -= -(-scenario.truth.state_page // scenario.truth.kv_per_token)
    if tokens >= physics.number(settings, "max_model_len") or tokens < bounds[0]:
        return None
    return tokens // BLOCK_TOKENS * BLOCK_TOKENS


def best(scenario: Scenario) -> Best:
    asked, others = scenario.operator.asked, final_others(scenario)
    found: Settings | None = None
    most = 0.0
    if not scenario.operator.bad_flag and not _must_wait_for_ever(scenario):
        for tried in candidates(scenario):
            if not stays_up(scenario, tried):
                continue
            value = physics.capacity(scenario.truth, tried, asked, others)
            if value > most:
                found, most = tried, value
    return Best(found, most, found is not None and stays_up(scenario, asked))


def _must_wait_for_ever(scenario: Scenario) -> bool:
    """A neighbour that stays where sharing is not allowed, and too little for the asked budget."""
    if scenario.operator.share or scenario.neighbour is None:
        return False
    room = physics.slacks(scenario.truth, scenario.operator.asked, final_others(scenario))
    return room[Wall.INIT] < 0


def floor_of(scenario: Scenario, best_found: Best) -> int:
    """Relaunches that nobody can avoid who starts with what was asked, after looking at NVML."""
    operator, neighbour = scenario.operator, scenario.neighbour
    unavoidable = scenario.load.exits + (1 if scenario.family == "profiling disturbed" else 0)
    if best_found.asked_stays:
        return unavoidable
    seen = neighbour is not None and not neighbour.moves and operator.share
    return unavoidable + (0 if seen else 1)


def kv_left(scenario: Scenario, settings: Settings) -> float:
    """Share of the KV bytes left unused that the same sequences and tokens could have had."""
    truth, others = scenario.truth, final_others(scenario)
    low, high = scenario.operator.ranges["gpu_memory_utilization"]
    tried = {name: value for name, value in settings.items() if name != "kv_cache_memory_bytes"}
    top = {**tried, "gpu_memory_utilization": highest_utilization(scenario, tried, low, high)}
    most = physics.available_kv(truth, top, physics.needs(truth, top), others)
    has = physics.available_kv(truth, settings, physics.needs(truth, settings), others)
    return 0.0 if most <= 0 else max(0.0, (most - has) / most)


def capacity_left(scenario: Scenario, settings: Settings, best_found: Best) -> float:
    has = physics.capacity(
        scenario.truth, settings, scenario.operator.asked, final_others(scenario)
    )
    return max(0.0, 1 - has / best_found.capacity) if best_found.capacity else 0.0


def out_of_bounds(scenario: Scenario, settings: Settings) -> bool:
    """Whether a setting, or the budget that fixed KV bytes amount to, is beyond the bounds."""
    operator, asked = scenario.operator, scenario.operator.asked
    for name, value in settings.items():
        if isinstance(value, bool | str) or asked.get(name) == value:
            continue
        low, high = operator.ranges.get(name, (value, value) if name not in asked else (1, 0))
        if not low - 1e-9 <= value <= high + 1e-9:
            return True
    fixed = settings.get("kv_cache_memory_bytes")
    if fixed is None:
        return False
    truth = scenario.truth
    need = physics.needs(truth, settings)
    budget = int(fixed) + truth.weights + need.peak + need.estimate
    return budget > operator.ranges["gpu_memory_utilization"][1] * truth.total
