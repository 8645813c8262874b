"""Memory that other processes hold, take or return while the engine counts on it."""

from __future__ import annotations

from vllm_warden.core.diagnose.detect import Raises
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Failure, Phase

SIGNATURES = (
    Signature(
        id="weights-held-outside",
        failure=Failure.GPU_MEMORY_TAKEN,
        detect=Raises("ValueError", "Externally held weights on device"),
        summary="Weights that another process holds leave nothing of the budget.",
        caution="Those weights belong to this model: waiting frees nothing of them.",
        phase=Phase.INIT_DEVICE,
        since="0.32.0",
    ),
    Signature(
        id="sleep-disturbed",
        failure=Failure.MEMORY_PROFILING_DISTURBED,
        detect=Raises("AssertionError", "Memory usage increased after sleeping"),
        summary="Another process took GPU memory while the engine went to sleep.",
        caution="Measured for the whole GPU: it does not say who took it.",
        phase=Phase.SERVING,
        passing=True,
    ),
)
