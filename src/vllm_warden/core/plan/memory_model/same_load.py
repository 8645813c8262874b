"""How much of what was measured holds for other options: those that load alike measure alike."""

from __future__ import annotations

from vllm_warden.core.plan.memory_model.engine_options import EngineOptions
from vllm_warden.core.plan.memory_model.measured import Measured


def still_measured(found: Measured, then: EngineOptions, planned: EngineOptions) -> Measured:
    """All of it, or only what stays true where other tensors lie on the GPU."""
    return found if _load(then) == _load(planned) else Measured(context_bytes=found.context_bytes)


def _load(options: EngineOptions) -> tuple[object, ...]:
    """What decides which bytes lie on a GPU before any request."""
    return (
        options.layout,
        options.quantization,
        options.offload_bytes,
        options.speculative_tokens > 0,
        options.enforce_eager,
    )
