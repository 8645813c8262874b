"""How ``serve`` ends: the exit code for each way of coming to rest."""

from __future__ import annotations

import pytest

from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import Confidence, Failure
from vllm_warden.core.plan.spec import InstanceSpec
from vllm_warden.daemon.foreground import exit_code

SPEC = InstanceSpec("tiny", "/m", ())


def ended(state: State, failure: Failure | None) -> Instance:
    diagnosis = None
    if failure is not None:
        diagnosis = Diagnosis(failure=failure, phase=None, confidence=Confidence.CERTAIN)
    return Instance(SPEC, state=state, attempts_made=7, diagnosis=diagnosis)


@pytest.mark.parametrize(
    ("state", "failure", "launched", "code"),
    [
        (State.FAILED, None, False, 2),
        (State.FAILED, Failure.CONFIGURATION_INVALID, True, 2),
        (State.FAILED, Failure.MODEL_UNAVAILABLE, True, 2),
        (State.FAILED, Failure.GPU_OUT_OF_MEMORY, True, 1),
        (State.FAILED, None, True, 1),
        (State.HELD, None, False, 1),
        (State.HELD, Failure.CONFIGURATION_INVALID, True, 1),
    ],
)
def test_the_exit_code_tells_a_refusal_from_giving_up(
    state: State, failure: Failure | None, launched: bool, code: int
) -> None:
    assert exit_code(ended(state, failure), launched=launched) == code
