"""How ``serve`` ends: the exit code for each way of coming to rest."""

from __future__ import annotations

import errno
import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import Confidence, Failure
from vllm_warden.core.plan.spec import InstanceSpec
from vllm_warden.daemon.foreground import copy_output, exit_code
from vllm_warden.daemon.observe import tell_listeners

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


class Broken(io.StringIO):
    """Standard output that takes nothing."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def write(self, _: str) -> int:
        raise OSError(self.number, "no more")


@pytest.mark.parametrize(("number", "said"), [(errno.ENOSPC, True), (errno.EPIPE, False)])
def test_an_output_that_takes_no_more_harms_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, said: bool
) -> None:
    shell: Any = SimpleNamespace(line_listeners=set())
    heard: list[str] = []
    copy_output(shell)
    shell.line_listeners.add(lambda _instance, _number, records: heard.append(records[0].text))
    monkeypatch.setattr(sys, "stdout", Broken(number))

    for text in ("one", "two"):
        tell_listeners(shell, "tiny", 1, [LogRecord(1, text)])
    print("at the end", flush=True)

    assert heard == ["one", "two"]
    errors = capsys.readouterr().err
    assert errors.count("cannot copy the engine's output: no more") == int(said)
