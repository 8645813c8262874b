"""Breaks, one at a time, what the simulator assumes, to see what a policy owes to it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from benchmarks.convergence import physics
from benchmarks.convergence.scenario import GIB, MIB, Scenario, Truth

Change = Callable[[Scenario, random.Random], Scenario]


def _truth(scenario: Scenario, **values: float) -> Scenario:
    return replace(scenario, truth=replace(scenario.truth, **values))  # type: ignore[arg-type]


def _fragmentation(scenario: Scenario, source: random.Random) -> Scenario:
    return _truth(scenario, fragmentation=source.uniform(0.10, 0.30))


def _sampler(scenario: Scenario, source: random.Random) -> Scenario:
    return _truth(scenario, row_factor=scenario.truth.row_factor * source.uniform(0.7, 1.3))


def _fixed_activations(scenario: Scenario, _: random.Random) -> Scenario:
    """Half of the forward pass does not shrink with the batch; the peak as asked is the same."""
    tokens = int(physics.number(scenario.operator.asked, "max_num_batched_tokens"))
    truth: Truth = scenario.truth
    whole = truth.act_fixed + truth.act_per_token * tokens
    return _truth(scenario, act_fixed=whole // 2, act_per_token=(whole - whole // 2) // tokens)


def _drift(scenario: Scenario, _: random.Random) -> Scenario:
    return _truth(scenario, drift=scenario.truth.drift + GIB)


def _jitter(scenario: Scenario, _: random.Random) -> Scenario:
    return _truth(scenario, jitter=200 * MIB)


def _front(scenario: Scenario, _: random.Random) -> Scenario:
    """The largest graph takes most, later ones share its pool."""
    return _truth(scenario, graphs_front=0.6)


def _spike(scenario: Scenario, source: random.Random) -> Scenario:
    load = replace(scenario.load, spike_bytes=3 * GIB, spike_after=source.uniform(200, 1500))
    return replace(scenario, load=load)


STRESSES: Mapping[str, Change] = {
    "fragmentation 10-30 %": _fragmentation,
    "sampler bytes +-30 %": _sampler,
    "half of the forward pass fixed": _fixed_activations,
    "drift +1 GiB": _drift,
    "jitter 200 MiB": _jitter,
    "the largest graph takes most": _front,
    "a spike of 3 GiB everywhere": _spike,
}


def stressed(scenario: Scenario, name: str) -> Scenario:
    """The same story with one assumption broken; what is asked and allowed stays."""
    return STRESSES[name](scenario, random.Random(f"{scenario.seed}/{name}"))
