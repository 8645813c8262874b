"""Waits that ended without an answer."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import Prints, Raises
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.model import Failure, Phase

_STALLED = Failure.ENGINE_STALLED

SIGNATURES = (
    Signature(
        id="start-timeout",
        failure=_STALLED,
        detect=Raises("", "Timed out waiting for engine"),
        summary="The engine did not become ready within vLLM's own limit.",
        caution="A slow disk or a large model looks the same as a hang.",
        weight=Weight.DEATH,
        passing=True,
        since="0.9.1",
    ),
    Signature(
        id="handshake-timeout",
        failure=_STALLED,
        detect=Raises("", "Did not receive response from front-end process within"),
        summary="The engine core heard nothing from the API server while starting.",
        caution="The API server may have died first.",
        weight=Weight.DEATH,
        phase=Phase.ARGS,
        passing=True,
        since="0.9.0.1",
    ),
    Signature(
        id="coordinator-timeout",
        failure=_STALLED,
        detect=Raises(
            "",
            "",
            re.compile(
                r"DP Coordinator process failed to report ZMQ addresses|Barrier (?:departure )?timed out after"
                r"|Timed? ?out waiting for (?:workers|ranks|all ranks|response)"
            ),
        ),
        summary="A process of the engine did not report in time.",
        caution="It may have died without a word.",
        weight=Weight.DEATH,
        passing=True,
    ),
    Signature(
        id="iteration-timeout",
        failure=_STALLED,
        detect=Prints(("Engine iteration timed out",), levels=("ERROR", "CRITICAL")),
        summary="One step of the engine took longer than its limit.",
        caution="A rank that hangs in a collective or a broken GPU looks the same.",
        weight=Weight.RELAYED,
        phase=Phase.SERVING,
    ),
    Signature(
        id="silent-ranks",
        failure=_STALLED,
        detect=Prints(("No available shared memory broadcast block",), levels=("INFO", "WARNING")),
        summary="The ranks wait for each other while requests run and no token is made.",
        caution="Says nothing of why; a very long prompt can hold a step up for minutes.",
        weight=Weight.HINT,
        phase=Phase.SERVING,
        in_silence=True,
        likely=True,
        since="0.11.0",
    ),
)
