"""Words that anything in the engine's processes may print end no service at their first word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.decide.cases import case
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.policy import decide
from vllm_warden.core.model import Failure, Mode, Phase
from vllm_warden.core.plan.spec import AdaptSpec

ENDS = (Remedy.GIVE_UP, Remedy.HOLD)
ENDING = [failure for failure in Failure if decide(case(failure, Phase.LOAD)).remedy in ENDS]


def test_several_failures_end_the_service() -> None:
    assert Failure.CONFIGURATION_INVALID in ENDING
    assert Failure.GPU_FAULT in ENDING


@pytest.mark.parametrize("failure", ENDING)
def test_overheard_it_is_tried_once_more_and_ends_the_service_when_it_comes_again(
    failure: Failure,
) -> None:
    certain = case(failure, Phase.LOAD)
    overheard = replace(certain, diagnosis=replace(certain.diagnosis, overheard=True))
    first = decide(overheard)
    assert (first.remedy, first.changes) == (Remedy.RELAUNCH, ())
    assert decide(certain).reason in first.reason
    other = LedgerEntry(
        900.0, Failure.KILLED_BY_SIGNAL, Phase.LOAD, was_ready=False, after_soak=False
    )
    assert decide(replace(overheard, ledger=(other,))).remedy is Remedy.RELAUNCH
    again = decide(replace(overheard, ledger=(replace(other, failure=failure),)))
    assert again.remedy is decide(certain).remedy


def test_observe_starts_nothing_for_it() -> None:
    one = case(Failure.GPU_FAULT, Phase.LOAD, adapt=AdaptSpec(mode=Mode.OBSERVE))
    assert (
        decide(replace(one, diagnosis=replace(one.diagnosis, overheard=True))).remedy is Remedy.HOLD
    )
