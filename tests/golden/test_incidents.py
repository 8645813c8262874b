"""The daemon decides what was computed by hand; the simulator agrees that it helps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.convergence import physics
from benchmarks.convergence.boot import boot
from benchmarks.convergence.log_text import log_of
from benchmarks.convergence.physics import Others
from benchmarks.convergence.scenario import Wall
from benchmarks.convergence.world import World
from tests.golden.incident import FILES, Incident, by_hand, decided, incident
from vllm_warden.core.decide import budget, choice, serving
from vllm_warden.core.decide.decision import Decision, Remedy

INCIDENTS = [incident(path) for path in FILES]
each_incident = pytest.mark.parametrize("found", INCIDENTS, ids=lambda one: one.name)


def changed(decision: Decision) -> dict[str, object]:
    return {change.setting: change.after for change in decision.changes}


def test_there_are_eight_incidents_one_of_them_in_two_eras() -> None:
    assert len(INCIDENTS) == 9


@each_incident
def test_each_line_of_the_arithmetic_is_what_its_sum_gives(found: Incident) -> None:
    values = by_hand(found)
    for line in found.written["arithmetic"]:
        assert values[line["name"]] == pytest.approx(line["gives"], abs=6e-5), line["name"]


@each_incident
def test_the_next_walls_have_room(found: Incident) -> None:
    values = by_hand(found)
    walls = [values[name] for name in ("spare", "profile") if name in values]

    assert walls
    assert all(left > 0 for left in walls)


@each_incident
def test_the_daemon_decides_what_was_computed_by_hand(found: Incident) -> None:
    diagnosis, decisions = decided(found)
    expected = found.written["diagnosis"]

    assert diagnosis.failure.value == expected["failure"]
    assert diagnosis.phase is not None
    assert diagnosis.phase.value == expected["phase"]
    if "site" in expected:
        assert diagnosis.site is not None
        assert diagnosis.site.value == expected["site"]
    if "first" in found.written["decision"]:
        assert decisions[0].remedy.value == found.written["decision"]["first"]
    assert decisions[-1].remedy is Remedy.RELAUNCH_WITH
    assert changed(decisions[-1]) == found.changes


@each_incident
def test_the_price_and_the_arithmetic_are_told(found: Incident) -> None:
    decision, values = decided(found)[1][-1], by_hand(found)

    assert decision.price is not None
    assert decision.price.kv_tokens_after == pytest.approx(values["price"], rel=1e-3)
    assert decision.price.sequences_after == found.in_force["max_num_seqs"]
    told = "\n".join(decision.arithmetic)
    if "step" in values:
        assert f"{values['step']:.2f} GiB" in told
    for name in ("H", "room", "P_most") if "step" not in values else ():
        if name in values:
            assert f"{values[name]:.2f} GiB" in told, name


@each_incident
def test_the_simulator_prints_this_log(found: Incident) -> None:
    scenario = found.scenario()
    outcome = boot(scenario, World(scenario), dict(scenario.operator.asked), 1)

    assert log_of(scenario, outcome) == found.log


@each_incident
def test_in_the_simulator_the_asked_settings_die_and_the_decided_ones_hold(
    found: Incident,
) -> None:
    scenario = found.scenario()
    taken = found.written["story"].get("neighbour_bytes", 0)
    spike = scenario.load.spike_bytes
    late = Others(0, 0, taken)

    def wall(settings: Any, others: Others) -> Wall | None:
        room = physics.slacks(scenario.truth, settings, others, scenario.truth.jitter, spike)
        return physics.first_wall(room, Wall.SPIKE)

    assert wall(found.written["asked"], late) is not None
    assert wall(found.in_force, late) is None
    assert wall(found.in_force, Others(taken, taken, taken)) is None


def _negated_graphs(graphs: float, estimate: float) -> float:
    return graphs + estimate


def _added_margin(usable: float, outside: float, kept: float) -> float:
    return usable - outside + kept


def _added_graphs(usable: float, outside: float, kept: float) -> float:
    return usable + outside - kept


def _free_taken_off(free: float, allocated: float) -> float:
    return allocated - free


def _peak_with_cache(requested: float, weights: float, available: float, estimate: float) -> float:
    return requested - weights + available - estimate


def _peak_with_estimate(
    requested: float, weights: float, available: float, estimate: float
) -> float:
    return requested - weights - available + estimate


def _spare_given(pool: float, request: float, spare: float) -> float:
    return pool - request + spare


def _request_given(pool: float, request: float, spare: float) -> float:
    return pool + request - spare


def _free_added(tried: float, free: float) -> float:
    return tried + free + serving.MARGIN_BYTES


POST_KV = (
    (budget, "room", _added_margin),
    (budget, "room", _added_graphs),
    (budget, "usable", _free_taken_off),
)
SHARED = ((budget, "measured_peak", _peak_with_cache),)
PLANNED = ((choice, "largest_peak", _spare_given), (choice, "largest_peak", _request_given))
MUTATIONS: dict[str, tuple[tuple[Any, str, Callable[..., float]], ...]] = {
    "seed-0.15.1": (*POST_KV, *SHARED),
    "seed-0.33.0": (*POST_KV, (budget, "unbudgeted", _negated_graphs), *SHARED),
    "kv-10-mib-short": (*PLANNED, *SHARED),
    "post-kv-sampler": (*POST_KV, *SHARED),
    "capture-0.13.0": (*POST_KV, *SHARED),
    "capture-0.20.2": (
        *POST_KV,
        (budget, "unbudgeted", _negated_graphs),
        (budget, "measured_peak", _peak_with_estimate),
    ),
    "two-limits": (*PLANNED, *SHARED),
    "neighbour-16-gib": (*POST_KV, *SHARED),
    "serving-three-weeks": ((serving, "missing", _free_added),),
}


@pytest.mark.parametrize(
    ("name", "at"),
    [(name, at) for name, terms in MUTATIONS.items() for at in range(len(terms))],
)
def test_one_wrong_sign_changes_the_decision(
    name: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = next(one for one in INCIDENTS if one.name == name)
    module, function, wrong = MUTATIONS[name][at]
    monkeypatch.setattr(module, function, wrong)

    assert changed(decided(found)[1][-1]) != found.changes


def test_every_incident_has_a_wrong_sign_to_try() -> None:
    assert set(MUTATIONS) == {one.name for one in INCIDENTS}
