"""Tells from the functions on a call stack in which phase an exception was raised, and for what."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from vllm_warden.core.model import Phase, Site

_INIT = frozenset(
    {
        "init_device",
        "init_worker_distributed_environment",
        "init_distributed_environment",
        "_create_c10d_store",
    }
)
_LOAD = frozenset(
    {
        "load_model",
        "get_model",
        "load_weights",
        "process_weights_after_loading",
        "create_weights",
        "transform_w_q",
        "initialize_model",
        "make_layers",
        "construct_model",
    }
)
_PROFILE = frozenset(
    {
        "determine_available_memory",
        "determine_num_available_blocks",
        "profile_run",
        "profile_cudagraph_memory",
        "warming_up_model",
    }
)
_PLAN = frozenset(
    {
        "get_kv_cache_configs",
        "get_kv_cache_config",
        "check_enough_kv_cache_memory",
        "unify_hybrid_kv_cache_specs",
        "_check_enough_kv_cache_memory",
    }
)
_ALLOCATE = frozenset(
    {
        "register_kv_caches",
        "initialize_kv_cache",
        "_allocate_kv_cache_tensors",
        "initialize_kv_cache_tensors",
        "_allocate_kv_cache",
        "allocate_kv_cache",
    }
)
_WARM_UP = "compile_or_warm_up_model"
_CAPTURE = frozenset(
    {"capture_model", "_capture_cudagraphs", "_warmup_and_capture", "capture_graphs"}
)
_KERNELS = frozenset({"kernel_warmup", "warmup_kernels", "flashinfer_autotune", "deep_gemm_warmup"})
_SERVE = frozenset(
    {
        "execute_model",
        "sample_tokens",
        "_model_forward",
        "run_busy_loop",
        "run_engine_loop",
        "engine_step",
        "_process_engine_step",
        "step_with_batch_queue",
        "_execute_mm_encoder",
    }
)
LOOPS = frozenset(
    {
        "run_busy_loop",
        "run_engine_loop",
        "engine_step",
        "_process_engine_step",
        "step_with_batch_queue",
    }
)
"""The engine core's own loops: they run once the engine is ready, never before."""
SCHEDULER = frozenset({"schedule", "update_from_output", "finish_requests", "get_grammar_bitmask"})
"""The scheduler's bookkeeping of requests: no device, no memory, no other process."""
_SAMPLER = frozenset(
    {"_dummy_sampler_run", "sample_tokens", "apply_top_k_top_p", "topk_topp_sampler"}
)
_POOLER = frozenset({"_dummy_pooler_run", "_dummy_pooler_run_task"})
_ENCODER = frozenset(
    {
        "embed_multimodal",
        "get_multimodal_embeddings",
        "_get_mm_dummy_batch",
        "_execute_mm_encoder",
        "_run_encoder",
    }
)
_LORA = frozenset(
    {"load_lora_model", "add_lora", "create_lora_weights", "maybe_dummy_run_with_lora"}
)


def phase_of(functions: Collection[str]) -> Phase | None:
    """The phase of an exception raised under these functions, None when they do not say.

    Order matters: profiling captures trial graphs and allocates a small KV cache (vLLM 0.18 and
    later), and the kernel warm-up runs the model as serving does.
    """
    has = frozenset(functions)
    for names, phase in _IN_ORDER:
        if has & names:
            return _warm_up_part(has) if phase is Phase.WARMUP else phase
    return None


_IN_ORDER: tuple[tuple[frozenset[str], Phase], ...] = (
    (_INIT, Phase.INIT_DEVICE),
    (_PROFILE, Phase.PROFILE),
    (_LOAD, Phase.LOAD),
    (_PLAN, Phase.KV_PLAN),
    (frozenset({_WARM_UP}), Phase.WARMUP),
    (_ALLOCATE, Phase.KV_ALLOC),
    (_CAPTURE, Phase.CUDAGRAPH),
    (_KERNELS, Phase.KERNELS),
    (_SERVE, Phase.SERVING),
)


def _warm_up_part(has: frozenset[str]) -> Phase:
    if has & _CAPTURE:
        return Phase.CUDAGRAPH
    if "warmup_kernels" in has and "sampler" in has:
        return Phase.WARMUP  # model runner V2 warms its sampler up from there
    if has & _KERNELS:
        return Phase.KERNELS
    return Phase.WARMUP


_SAMPLES = frozenset({Phase.PROFILE, Phase.WARMUP})

KNOWN = frozenset(
    name
    for group in (_INIT, _LOAD, _PROFILE, _PLAN, _ALLOCATE, _CAPTURE, _KERNELS, _SERVE, SCHEDULER)
    for name in group
) | {_WARM_UP, "_dummy_sampler_run", "_dummy_pooler_run", "sampler"}
"""Names that tell something; worth picking out of source lines of a cut traceback."""

GROUPS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "init_device": _INIT,
        "load": _LOAD,
        "profile": _PROFILE,
        "kv_plan": _PLAN,
        "kv_alloc": _ALLOCATE,
        "cudagraph": _CAPTURE,
        "kernels": _KERNELS,
        "warmup": frozenset({_WARM_UP}),
        "serving": _SERVE,
        "sampler": _SAMPLER,
        "pooler": _POOLER,
        "encoder": _ENCODER,
        "lora": _LORA,
    }
)
"""The functions that are looked for on a stack, by the phase or site that they stand for."""


_SOURCES = (
    ("_ = torch.zeros(1, device=device)", "init_device"),  # makes the CUDA context, set_device
)


def source_names(source: str) -> tuple[str, ...]:
    """What a line of source stands for that only one place of vLLM holds."""
    return tuple(name for text, name in _SOURCES if text in source)


def frame_names(file: str, function: str) -> tuple[str, ...]:
    """Names that a frame stands for: its function, and what its file says beyond that."""
    if "/sample/" in file:
        return function, "sampler"
    if function == "initialize_from_config" and "/worker/" in file:
        # a worker only allocates there; the engine core's frame of that name also warms up
        return function, "initialize_kv_cache"
    if file.endswith("torch/utils/_device.py") or "/model_loader/" in file:
        # vLLM makes tensors under `with torch.device(...)` only where it constructs the model
        return function, "construct_model"
    if function in ("__init__", "init") and "/model_executor/" in file:
        return function, "construct_model"
    return (function,)


def site_of(phase: Phase | None, functions: Collection[str]) -> Site | None:
    """What the memory was for that could not be had in this phase, None when not told."""
    has = frozenset(functions)
    if phase is Phase.LOAD:
        return Site.LORA if has & _LORA else Site.WEIGHTS
    if has & _POOLER:
        return Site.POOLER
    if phase is Phase.SERVING:
        return _serving_site(has)
    if "_dummy_sampler_run" in has or (phase in _SAMPLES and "sampler" in has):
        return Site.SAMPLER
    return _start_up_site(phase, has)


def _serving_site(has: frozenset[str]) -> Site | None:
    if has & _ENCODER:
        return Site.ENCODER
    if has & {"execute_model", "_model_forward"}:
        return Site.ACTIVATIONS
    return Site.SAMPLER if has & _SAMPLER else None


def _start_up_site(phase: Phase | None, has: frozenset[str]) -> Site | None:
    if phase in (Phase.PROFILE, Phase.WARMUP):
        if has & _ENCODER:
            return Site.ENCODER
        if "profile_cudagraph_memory" in has:
            return Site.CUDA_GRAPHS
        return Site.ACTIVATIONS if has else None
    return (
        {
            Phase.KV_PLAN: Site.KV_CACHE,
            Phase.KV_ALLOC: Site.KV_CACHE,
            Phase.CUDAGRAPH: Site.CUDA_GRAPHS,
            Phase.KERNELS: Site.KERNELS,
        }.get(phase)
        if phase
        else None
    )
