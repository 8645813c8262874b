"""What is told of a remedy is what the remedies answer."""

from __future__ import annotations

import pytest

from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.explanation import Treatment, treatments
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.model import Failure, Phase, Role, Site

CAUSES = [row for row in SIGNATURES if row.role is Role.CAUSE]
ROWS = {row.id: row for row in SIGNATURES}


def _at(failure: Failure, phase: Phase, site: Site | None) -> list[Treatment]:
    return [
        one
        for one in treatments(failure)
        if any((place.phase, place.site) == (phase, site) for place in one.places)
    ]


@pytest.mark.parametrize("failure", Failure)
def test_every_failure_has_an_answer_and_no_answer_comes_twice(failure: Failure) -> None:
    answers = treatments(failure)
    assert answers
    assert len(set(answers)) == len(answers)


def test_every_row_is_named_by_some_answer() -> None:
    for row in CAUSES:
        named = {name for one in treatments(row.failure) for name in one.signatures}
        assert row.id in named


def test_no_answer_calls_useless_what_it_moves() -> None:
    for failure in Failure:
        for one in treatments(failure):
            moved = {*one.lowered, *one.raised} - {"gpu_memory_utilization", "max_num_seqs"}
            assert moved.isdisjoint(useless.setting for useless in one.useless)


def test_weights_that_do_not_fit_move_nothing_and_wait_only_for_others() -> None:
    answers = _at(Failure.GPU_OUT_OF_MEMORY, Phase.LOAD, Site.WEIGHTS)
    assert {one.remedy for one in answers} == {Remedy.GIVE_UP, Remedy.WAIT}
    assert all(not one.lowered and not one.raised for one in answers)
    (waits,) = (one for one in answers if one.remedy is Remedy.WAIT)
    assert all("other processes" in place.condition for place in waits.places)


def test_what_the_bounds_forbid_is_told_as_a_condition() -> None:
    answers = treatments(Failure.KV_CACHE_TOO_SMALL, ROWS["request-exceeds-cache"])
    shorter = [one for one in answers if one.lowered == ("max_model_len",)]
    larger = [one for one in answers if one.raised == ("gpu_memory_utilization",)]
    assert len(shorter) == len(larger) == 1
    assert {place.condition for place in shorter[0].places} == {
        "where adapt.max_model_len allows a shorter context"
    }


def test_rows_that_pass_by_themselves_are_tried_again_and_others_are_not() -> None:
    for failure in (Failure.GPU_FAULT, Failure.MODEL_UNAVAILABLE):
        for row in (row for row in CAUSES if row.failure is failure):
            (answer,) = treatments(failure, row)
            assert (answer.remedy is Remedy.RELAUNCH) is row.passing, row.id
