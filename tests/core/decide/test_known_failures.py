"""Of every failure known of vLLM it is known whether the same command may work another time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.decide.cases import case
from tests.core.diagnose.known_failures import KNOWN, Known
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.remedies import REMEDIES
from vllm_warden.core.model import Failure, Phase, Site

JUDGED = [one for one in KNOWN if one.again is not None]
GOES_ON = {Remedy.RELAUNCH, Remedy.RELAUNCH_WITH, Remedy.WAIT}


def _remedy(one: Known, signature: str) -> Remedy:
    phase = Phase(one.phase) if one.phase else None
    example = case(Failure(one.failure), phase, Site(one.site) if one.site else None)
    diagnosis = replace(example.diagnosis, signature=signature)
    return REMEDIES[diagnosis.failure](replace(example, diagnosis=diagnosis)).remedy


@pytest.mark.parametrize("one", JUDGED, ids=[f"{one.id}-{one.phase}" for one in JUDGED])
def test_what_may_work_again_goes_on_and_nothing_else_is_tried_unchanged(one: Known) -> None:
    for signature in one.signatures:
        remedy = _remedy(one, signature)
        if one.again == "no":
            assert remedy is not Remedy.RELAUNCH, signature
        else:
            assert remedy in GOES_ON, signature
