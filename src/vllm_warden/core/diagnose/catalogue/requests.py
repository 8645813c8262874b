"""Failures of a serving engine that a request brings about: memory and the device are not at fault."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import RaisedUnder, Raises
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.model import Failure, Phase

_SERVING = frozenset({Phase.SERVING})

SIGNATURES = (
    Signature(
        id="workspace-locked",
        failure=Failure.REQUEST_TRIGGERED_CRASH,
        detect=Raises("", "Workspace is locked but"),
        summary="A batch needed more scratch memory than the warm-up had seen.",
        caution="A flaw of vLLM, not a lack of memory; the same batch does it again.",
        since="0.13.0",
    ),
)

LAST = (
    Signature(
        id="step-broke",
        failure=Failure.REQUEST_TRIGGERED_CRASH,
        detect=RaisedUnder(
            (
                "AssertionError",
                "IndexError",
                "KeyError",
                "ValueError",
                "TypeError",
                "AttributeError",
                "ZeroDivisionError",
                "UnboundLocalError",
                "NotImplementedError",
                "UnicodeDecodeError",
                "OverflowError",
            ),
            functions=frozenset(
                {
                    "run_busy_loop",
                    "_process_engine_step",
                    "_process_input_queue",
                    "step_with_batch_queue",
                    "schedule",
                    "update_from_output",
                    "execute_model",
                    "sample_tokens",
                    "engine_step",
                    "step_async",
                    "add_request",
                }
            ),
            phases=_SERVING,
            pattern=re.compile(r"^(?![^\n]{0,200}(?:timed out|died|Connection|cancelled))"),
        ),
        summary="A step of the engine broke on what the requests of that moment asked for.",
        caution="Read from where it was raised; which request it was is not known.",
        weight=Weight.DEATH,
        likely=True,
    ),
)
