"""Failures of a serving engine that a request brings about: memory and the device are not at fault."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import RaisedUnder, Raises
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.model import Failure, Phase

_SERVING = frozenset({Phase.SERVING})
_STEP = frozenset(
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
)
"""Functions that a step of a serving engine goes through."""

SIGNATURES = (
    Signature(
        id="workspace-locked",
        failure=Failure.REQUEST_TRIGGERED_CRASH,
        detect=Raises("", "Workspace is locked but"),
        summary="A batch needed more scratch memory than the warm-up had seen.",
        caution="A flaw of vLLM, not a lack of memory; the same batch does it again.",
        since="0.13.0",
    ),
    Signature(
        id="shapes-broke",
        failure=Failure.REQUEST_TRIGGERED_CRASH,
        detect=RaisedUnder(
            ("RuntimeError", "IndexError"),
            phases=_SERVING,
            pattern=re.compile(
                r"The size of tensor a|shape mismatch|mat1 and mat2 shapes|Sizes of tensors must match"
                r"|shape '\[[^\]\n]{0,100}\]' is invalid|stack expects each tensor|is out of bounds for dimension"
                r"|The expanded size of the tensor|Expected size for first two dimensions"
            ),
        ),
        summary="Tensors of one step did not fit to each other.",
        caution="Read from the phase: which request it was is not known.",
        weight=Weight.DEATH,
        likely=True,
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
            functions=_STEP,
            phases=_SERVING,
            pattern=re.compile(r"^(?![^\n]{0,200}(?:timed out|died|Connection|cancelled))"),
        ),
        summary="A step of the engine broke on what the requests of that moment asked for.",
        caution="Read from where it was raised; which request it was is not known.",
        weight=Weight.DEATH,
        likely=True,
    ),
    Signature(
        id="step-raised",
        failure=Failure.REQUEST_TRIGGERED_CRASH,
        detect=RaisedUnder(
            ("RuntimeError",),
            functions=_STEP,
            phases=_SERVING,
            pattern=re.compile(
                r"^(?![^\n]{0,400}(?:CUDA|cuda|HIP|hip|XPU|NPU|NCCL|nccl|gloo|memory|driver|device|imed out"
                r"|died|cancelled|Engine|Executor|ocket|onnection|terminated|kernel|Triton|failed with error))"
            ),
        ),
        summary="A part of the engine refused what the requests of that moment asked for.",
        caution="Read from where it was raised; which request it was is not known.",
        weight=Weight.DEATH,
        likely=True,
    ),
    Signature(
        id="engine-broke",
        failure=Failure.REQUEST_TRIGGERED_CRASH,
        detect=RaisedUnder(
            (
                "AssertionError",
                "IndexError",
                "KeyError",
                "TypeError",
                "AttributeError",
                "ZeroDivisionError",
                "UnboundLocalError",
            ),
            phases=_SERVING,
        ),
        summary="The engine broke on a flaw of its own while it served.",
        caution="Read from the phase alone; what brought it about is not known.",
        weight=Weight.DEATH,
        likely=True,
    ),
)
