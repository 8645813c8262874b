"""Phase and site from the functions on a call stack."""

from __future__ import annotations

import pytest

from vllm_warden.core.diagnose.places import frame_names, phase_of, site_of
from vllm_warden.core.model import Phase, Site

CASES = [
    ("init_device load_model", Phase.INIT_DEVICE, None),
    ("load_model create_weights", Phase.LOAD, Site.WEIGHTS),
    ("load_model load_lora_model", Phase.LOAD, Site.LORA),
    ("determine_available_memory profile_run _dummy_run", Phase.PROFILE, Site.ACTIVATIONS),
    ("determine_available_memory profile_run construct_model", Phase.PROFILE, Site.ACTIVATIONS),
    ("determine_available_memory profile_run _dummy_sampler_run", Phase.PROFILE, Site.SAMPLER),
    ("profile_run embed_multimodal", Phase.PROFILE, Site.ENCODER),
    ("profile_cudagraph_memory initialize_kv_cache", Phase.PROFILE, Site.CUDA_GRAPHS),
    ("profile_cudagraph_memory _warmup_and_capture", Phase.PROFILE, Site.CUDA_GRAPHS),
    ("initialize_from_config", None, None),
    ("initialize_from_config initialize_kv_cache", Phase.KV_ALLOC, Site.KV_CACHE),
    ("initialize_from_config allocate_kv_cache", Phase.KV_ALLOC, Site.KV_CACHE),
    ("get_kv_cache_configs", Phase.KV_PLAN, Site.KV_CACHE),
    ("initialize_from_config compile_or_warm_up_model _dummy_run", Phase.WARMUP, Site.ACTIVATIONS),
    ("compile_or_warm_up_model capture_model _dummy_run", Phase.CUDAGRAPH, Site.CUDA_GRAPHS),
    ("compile_or_warm_up_model kernel_warmup", Phase.KERNELS, Site.KERNELS),
    ("compile_or_warm_up_model warmup_kernels execute_model", Phase.KERNELS, Site.KERNELS),
    ("compile_or_warm_up_model warmup_kernels sample_tokens sampler", Phase.WARMUP, Site.SAMPLER),
    ("compile_or_warm_up_model _dummy_sampler_run", Phase.WARMUP, Site.SAMPLER),
    ("compile_or_warm_up_model _dummy_pooler_run", Phase.WARMUP, Site.POOLER),
    ("run_busy_loop execute_model _model_forward", Phase.SERVING, Site.ACTIVATIONS),
    ("execute_model _execute_mm_encoder", Phase.SERVING, Site.ENCODER),
    ("run_busy_loop sample_tokens", Phase.SERVING, Site.SAMPLER),
    ("run_busy_loop", Phase.SERVING, None),
    ("main", None, None),
]


@pytest.mark.parametrize(("stack", "phase", "site"), CASES, ids=[case[0] for case in CASES])
def test_a_stack_tells_phase_and_site(stack: str, phase: Phase | None, site: Site | None) -> None:
    functions = stack.split()
    found = phase_of(functions)
    assert (found, site_of(found, functions)) == (phase, site)


def test_a_models_constructor_counts_as_loading() -> None:
    names = frame_names("/opt/vllm/model_executor/models/llama.py", "__init__")
    assert phase_of(names) is Phase.LOAD
