"""The lifecycle table is complete, and every pair of state and event was thought about once."""

from __future__ import annotations

import itertools

import pytest

from vllm_warden.core.lifecycle import events
from vllm_warden.core.lifecycle.machine import IGNORED, IMPOSSIBLE, RULES
from vllm_warden.core.lifecycle.states import State

EVENTS = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type)
    and issubclass(kind, events.Event)
    and kind not in (events.Event, events.AttemptEvent)
]


@pytest.mark.parametrize("pair", list(itertools.product(State, EVENTS)), ids=str)
def test_every_pair_is_in_exactly_one_table(pair: tuple[State, type[events.Event]]) -> None:
    assert sum(pair in table for table in (RULES, IGNORED, IMPOSSIBLE)) == 1


def test_no_table_names_an_unknown_pair() -> None:
    known = set(itertools.product(State, EVENTS))

    assert set(RULES) <= known
    assert known >= IGNORED
    assert known >= IMPOSSIBLE


def test_every_state_can_be_left_and_reached() -> None:
    reached = {target for rule in RULES.values() for target in rule.to}
    left = {state for (state, _), rule in RULES.items() if set(rule.to) - {state}}

    assert reached == set(State)
    assert left == set(State)
