"""What would make a setup fit that does not."""

from __future__ import annotations

from tests.core.plan.memory_model.models_read import SEED_GPU_BYTES, setup_of
from vllm_warden.core.model import GIB, Settings
from vllm_warden.core.plan.memory_model.measured import Measured
from vllm_warden.core.plan.memory_model.verdict import plan_memory
from vllm_warden.core.plan.memory_model.ways_out import ways_out


def ways_of(name: str, settings: Settings, gpu_bytes: int, gpus: int) -> dict[str, Settings]:
    plan = plan_memory(setup_of(name, settings, gpu_bytes=gpu_bytes))
    found = {way.what: way.settings for way in ways_out(plan, gpus)}
    for way in found.values():
        assert plan_memory(setup_of(name, {**settings, **way}, gpu_bytes=gpu_bytes)).fits
    return found


def test_ep_on_two_gpus_needs_other_gpus_and_no_knob():
    settings = {
        "tensor_parallel_size": 2,
        "enable_expert_parallel": True,
        "max_model_len": 131_072,
        "gpu_memory_utilization": 0.95,
    }

    found = ways_of("minimax-m2.5", settings, SEED_GPU_BYTES, 8)

    assert "PP3 (3 GPUs)" in found
    assert "TP4 (4 GPUs)" in found
    assert "TP8+EP (8 GPUs)" in found
    assert not {name for what in found for name in what.split()} & {
        *("gpu_memory_utilization", "max_num_seqs", "max_model_len", "kv_cache_dtype")
    }


def test_a_cache_that_is_too_small_may_be_cured_by_a_knob():
    settings = {"max_model_len": 131_072, "gpu_memory_utilization": 0.9, "max_num_seqs": 256}

    found = ways_of("llama-3.1-8b", settings, 30 * GIB, 1)

    assert "kv_cache_dtype fp8" in found
    assert any(what.startswith("max_model_len") for what in found)
    assert "quantization fp8" in found
    assert any(what.startswith("cpu_offload_gb") for what in found)


def test_what_fits_needs_no_way_out():
    plan = plan_memory(setup_of("llama-3.1-8b", {"max_model_len": 8192}, gpu_bytes=80 * GIB))

    assert ways_out(plan, 1) == ()


def test_more_than_the_whole_gpu_is_cured_by_utilization():
    settings = {"max_model_len": 8192, "gpu_memory_utilization": 0.999}

    found = ways_of("llama-3.1-8b", settings, 80 * GIB, 1)

    assert next(iter(found)).startswith("gpu_memory_utilization 0.9")


def test_a_batch_too_large_is_cured_by_fewer_tokens():
    settings = {"max_model_len": 8192, "max_num_batched_tokens": 65_536, "max_num_seqs": 256}

    found = ways_of("llama-3.1-8b", settings, 24 * GIB, 1)

    assert found["max_num_batched_tokens 32768"] == {"max_num_batched_tokens": 32_768}


def test_measured_weights_hold_for_the_same_load_only():
    """Two ranks have half of them each, and what is offloaded is not on the GPU."""
    settings = {"max_model_len": 65_536, "gpu_memory_utilization": 0.9, "max_num_seqs": 64}
    seen = Measured(weights_bytes=15 * GIB, peak_bytes=GIB, graphs_bytes=GIB // 2)
    setup = setup_of("llama-3.1-8b", settings, gpu_bytes=24 * GIB, measured=seen)

    found = [way.what for way in ways_out(plan_memory(setup), 2)]

    assert "TP2 (2 GPUs)" in found
    assert "quantization fp8" in found
    assert any(what.startswith("cpu_offload_gb") for what in found)
