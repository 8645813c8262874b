"""Searches the hidden truth for settings within the bounds that stay up."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.held_back.rooms import Wall, first_wall, rooms
from benchmarks.held_back.scenario import Moves, Scenario
from benchmarks.held_back.truth import Settings

SHARES = (1.0, 0.75, 0.5, 0.375, 0.25, 0.1875, 0.125)
STEP = 0.005


def stays_up(scenario: Scenario, settings: Settings) -> bool:
    """Whether the worst launch survives its first full batch beside what others come to hold."""
    return first_wall(scenario.truth, settings, scenario.others, None) is None


def relaunches(scenario: Scenario) -> int | None:
    """How many nobody can avoid who starts with what was asked; None when nothing works."""
    neighbour = scenario.neighbour
    if scenario.bad_flag:
        return None
    if stays_up(scenario, scenario.asked):
        return 0
    if neighbour is not None and neighbour.moves is Moves.STAYS and not scenario.share:
        return None
    if not any(stays_up(scenario, tried) for tried in candidates(scenario)):
        return None
    # A neighbour that is there before the first launch can be seen.
    return 0 if neighbour is not None and neighbour.moves is Moves.STAYS else 1


def candidates(scenario: Scenario) -> Iterator[Settings]:
    """The gentlest first: what is left alone matters less here than whether anything works."""
    least, most = scenario.ranges["max_num_seqs"]
    fewest, asked = scenario.ranges["max_num_batched_tokens"]
    low, high = scenario.ranges["gpu_memory_utilization"]
    steps = round((high - low) / STEP)
    lowest = round(low, 4)
    for share in SHARES:
        seqs = max(int(most * share), int(least))
        for tokens in sorted({int(max(fewest, seqs, asked * part)) for part in SHARES}):
            for at in range(steps + 1):
                yield {
                    **scenario.asked,
                    "max_num_seqs": seqs,
                    "max_num_batched_tokens": tokens,
                    "gpu_memory_utilization": min(high, round(lowest + at * STEP, 4)),
                }


def out_of_bounds(scenario: Scenario, settings: Settings) -> bool:
    """Whether a setting is neither what was asked nor within the operator's bounds."""
    for name, value in settings.items():
        if isinstance(value, bool | str) or scenario.asked.get(name) == value:
            continue
        if name == "kv_cache_memory_bytes":
            continue  # judged by the budget it amounts to, below
        low, high = scenario.ranges.get(name, (1.0, 0.0))
        if not low - 1e-9 <= float(value) <= high + 1e-9:
            return True
    return False


def room_at(scenario: Scenario, settings: Settings, met: tuple[Wall, int, int]) -> int:
    """Bytes left at a wall under other settings, beside the same others and with the same noise."""
    wall, others, launch = met
    return rooms(scenario.truth, settings, others, launch)[wall]
