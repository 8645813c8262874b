"""The engine options that memory depends on, with vLLM's defaults for what nobody asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vllm_warden.core.model import Settings
from vllm_warden.core.plan.defaults import engine_defaults
from vllm_warden.core.plan.memory_model.layout import Layout
from vllm_warden.core.plan.memory_model.model_shape import ModelShape
from vllm_warden.core.plan.sizes import SIZE_MOST
from vllm_warden.core.plan.spec import EngineFacts

EIGHT_BIT_CACHE = frozenset({"fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"})
BLOCK_TOKENS = 16
"""vLLM's default --block-size on CUDA, 0.8 to 0.33."""
ASSUMED_MODEL_LEN = 8192


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """``capture_max`` None is the engine's own choice; ``assumed`` names what nobody asked."""

    layout: Layout = field(default_factory=Layout)
    max_model_len: int = ASSUMED_MODEL_LEN
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    utilization: float = 0.9
    kv_cache_memory_bytes: int | None = None
    kv_value_bytes: int = 2
    block_tokens: int = BLOCK_TOKENS
    enforce_eager: bool = False
    capture_max: int | None = None
    quantization: str = ""
    offload_bytes: int = 0
    speculative_tokens: int = 0
    assumed: tuple[str, ...] = ()


def read_options(
    settings: Settings,
    shape: ModelShape,
    engine: EngineFacts,
    gpu_total_bytes: int,
    gpu_names: Sequence[str] = ("unknown",),
) -> EngineOptions:
    """Options the warden does not know are opaque: they change nothing here."""
    defaults = engine_defaults(settings, engine, gpu_names, gpu_total_bytes)
    seen = {**defaults, **settings}
    length = _whole(seen, "max_model_len")
    tokens = _whole(seen, "max_num_batched_tokens") or 2048
    speculative = seen.get("speculative_config")
    offload = seen.get("cpu_offload_gb")
    return EngineOptions(
        layout=Layout(
            tensor=_whole(seen, "tensor_parallel_size") or 1,
            pipeline=_whole(seen, "pipeline_parallel_size") or 1,
            data=_whole(seen, "data_parallel_size") or 1,
            expert_parallel=seen.get("enable_expert_parallel") is True,
        ),
        max_model_len=length or shape.max_position or ASSUMED_MODEL_LEN,
        max_num_seqs=_whole(seen, "max_num_seqs") or 256,
        max_num_batched_tokens=tokens,
        utilization=_fraction(seen, "gpu_memory_utilization"),
        kv_cache_memory_bytes=_whole(seen, "kv_cache_memory_bytes") or None,
        kv_value_bytes=_cache_bytes(seen, shape),
        block_tokens=_whole(seen, "block_size") or BLOCK_TOKENS,
        enforce_eager=seen.get("enforce_eager") is True,
        capture_max=_whole(seen, "max_cudagraph_capture_size") or None,
        quantization=str(seen.get("quantization") or ""),
        offload_bytes=int(offload * (1 << 30)) if isinstance(offload, int | float) else 0,
        speculative_tokens=(
            _whole(speculative, "num_speculative_tokens") if isinstance(speculative, dict) else 0
        ),
        assumed=tuple(name for name in (*defaults, "max_model_len") if name not in settings),
    )


def _cache_bytes(seen: Mapping[str, object], shape: ModelShape) -> int:
    if str(seen.get("kv_cache_dtype", "")) in EIGHT_BIT_CACHE:
        return 1
    return shape.value_bytes


def _whole(seen: Mapping[str, object], name: str) -> int:
    value = seen.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < SIZE_MOST:
        return value
    return 0


def _fraction(seen: Mapping[str, object], name: str) -> float:
    value = seen.get(name)
    return float(value) if isinstance(value, int | float) and 0 < value <= 1 else 0.9
