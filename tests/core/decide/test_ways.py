"""A service that ends is told the smallest changes with which it would work, computed."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.decide.cases import TOTAL, case, oom
from tests.core.plan.memory_model.models_read import model_of
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.policy import decide
from vllm_warden.core.model import GIB, Failure, Mode, Phase, Settings
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, ModelFacts

EP_ON_TWO: Settings = {
    "tensor_parallel_size": 2,
    "enable_expert_parallel": True,
    "max_num_seqs": 1024,
    "max_num_batched_tokens": 8192,
    "gpu_memory_utilization": 0.95,
    "max_model_len": 131_072,
}
LLAMA_SETTINGS: Settings = {
    "max_num_seqs": 256,
    "max_num_batched_tokens": 2048,
    "gpu_memory_utilization": 0.9,
    "max_model_len": 131_072,
}
SMALL_GPU = 30 * GIB


@pytest.fixture(scope="module")
def minimax() -> ModelFacts:
    model = model_of("minimax-m2.5")
    return ModelFacts(weight_bytes=model.checkpoint.total_bytes, for_memory=model)


@pytest.fixture(scope="module")
def llama() -> ModelFacts:
    return ModelFacts(for_memory=model_of("llama-3.1-8b"))


def too_large(model, **more):
    death = oom(Phase.LOAD, None)
    return replace(
        death, asked=EP_ON_TWO, in_force=EP_ON_TWO, model=model, gpu_total_bytes=TOTAL, **more
    )


def short_cache(model, **more):
    """A cache of 8.6 GiB where one request of 131,072 tokens needs 16."""
    figures: dict[str, int | float | str] = {
        "total_bytes": SMALL_GPU,
        "weights_bytes": int(14.99 * GIB),
        "available_bytes": int(8.6 * GIB),
        "needed_bytes": 16 * GIB,
        "estimated_max_model_len": 70_000,
    }
    death = case(Failure.KV_CACHE_TOO_SMALL, Phase.KV_PLAN, None, figures, asked=LLAMA_SETTINGS)
    return replace(death, model=model, gpu_total_bytes=SMALL_GPU, **more)


def test_weights_that_do_not_fit_name_the_layouts_that_do(minimax):
    decision = decide(too_large(minimax, host_gpus=8))
    assert decision.remedy is Remedy.GIVE_UP
    options = "\n".join(decision.options)
    assert "TP4: tensor_parallel_size 4 (4 GPUs)" in options
    assert "TP8+EP: tensor_parallel_size 8 with expert parallel (8 GPUs)" in options
    assert "cpu_offload_gb 43 (slow)" in options
    assert "a larger tensor_parallel_size" not in options
    assert "a quantised checkpoint" in options


def test_where_the_host_has_no_way_out_it_is_said(minimax):
    decision = decide(too_large(minimax, host_gpus=2))
    assert "cpu_offload_gb" in decision.options[0]
    tiny = too_large(minimax, host_gpus=2)
    tiny = replace(tiny, gpu_total_bytes=4 * GIB, in_force={**EP_ON_TWO, "max_num_seqs": 4})
    tiny = replace(tiny, diagnosis=replace(tiny.diagnosis, figures={}))
    told = decide(tiny).options[0]
    assert "no single change of the settings makes it fit on 2 GPUs of 4.0 GiB" in told


def test_a_length_that_may_not_move_is_named_with_its_bound_and_as_vllm_printed_it(llama):
    decision = decide(short_cache(llama, host_gpus=2))
    assert decision.remedy is Remedy.HOLD
    length = next(line for line in decision.options if line.startswith("max_model_len"))
    assert length == (
        "max_model_len 70000 (not allowed so far: adapt.max_model_len = { min = 70000 })"
    )
    assert "kv_cache_dtype fp8" in decision.options
    assert any(line.startswith("TP2: ") for line in decision.options)


def test_what_the_death_measured_takes_the_place_of_assumptions(llama):
    """8 GiB are needed by an 8-bit cache: 8.6 are enough for it, 7.5 are not."""
    death = short_cache(llama)
    figures = {**death.diagnosis.figures, "available_bytes": int(7.5 * GIB)}
    poorer = replace(death, diagnosis=replace(death.diagnosis, figures=figures))
    assert "kv_cache_dtype fp8" in decide(death).options
    assert "kv_cache_dtype fp8" not in decide(poorer).options


def test_where_the_arithmetic_sees_room_the_log_is_right_and_nothing_is_computed(llama):
    death = replace(oom(Phase.LOAD, None), model=llama, gpu_total_bytes=TOTAL, host_gpus=8)
    decision = decide(death)
    assert decision.remedy is Remedy.GIVE_UP
    assert decision.options[0] == (
        "a larger tensor_parallel_size or pipeline_parallel_size, on more GPUs"
    )


def test_a_wall_behind_the_one_it_died_at_explains_nothing(llama):
    """The weights of 15 GiB fit by the arithmetic, and the budget of 99 % would fail later."""
    late = {**LLAMA_SETTINGS, "gpu_memory_utilization": 0.99}
    death = replace(oom(Phase.LOAD, None), model=llama, gpu_total_bytes=TOTAL, in_force=late)
    assert not any("gpu_memory_utilization 0." in line for line in decide(death).options)


def test_without_the_models_files_the_hints_stay(minimax):
    known = too_large(minimax, host_gpus=8)
    decision = decide(replace(known, model=replace(minimax, for_memory=None)))
    assert "a larger tensor_parallel_size" in decision.options[0]


def test_a_relaunch_computes_nothing(llama):
    allowed = AdaptSpec(knobs={"max_model_len": Bounds(min=1)})
    decision = decide(short_cache(llama, adapt=allowed))
    assert decision.remedy is Remedy.RELAUNCH_WITH
    assert not any(line.startswith("max_model_len 7") for line in decision.options)


def test_one_that_only_watches_tells_the_ways_out_too(llama):
    decision = decide(short_cache(llama, adapt=AdaptSpec(mode=Mode.OBSERVE)))
    assert decision.remedy is Remedy.HOLD
    assert "kv_cache_dtype fp8" in decision.options


def test_words_of_the_command_line_count(minimax):
    """Only with the flag are the experts whole: without it TP 2 holds a part of each."""
    death = too_large(minimax, host_gpus=8)
    bare = {name: value for name, value in EP_ON_TWO.items() if name != "enable_expert_parallel"}
    offload = ("--cpu-offload-gb", "20")
    with_words = replace(death, in_force=bare, extra_args=("--enable-expert-parallel", *offload))
    assert not any("TP4" in line for line in decide(with_words).options)


def test_the_largest_host_costs_no_second(minimax):
    death = too_large(minimax, host_gpus=64)
    began = time.perf_counter()
    decide(death)
    assert time.perf_counter() - began < 1.0


def test_settings_without_an_end_measure_nothing(minimax):
    endless = {**EP_ON_TWO, "max_num_seqs": float("inf")}
    decision = decide(replace(too_large(minimax, host_gpus=8), in_force=endless))
    assert decision.remedy is Remedy.GIVE_UP


NUMBERS = st.one_of(
    st.integers(-(1 << 60), 1 << 60),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, 1, GIB, 24 * GIB, TOTAL]),
)
FIGURES = st.dictionaries(
    st.sampled_from(
        [
            *("weights_bytes", "available_bytes", "available_kv_bytes", "graphs_bytes"),
            *("graphs_estimated_bytes", "free_bytes", "total_bytes", "estimated_max_model_len"),
        ]
    ),
    NUMBERS,
)
SETTINGS = st.dictionaries(
    st.sampled_from([*EP_ON_TWO, "pipeline_parallel_size", "cpu_offload_gb", "block_size"]),
    st.one_of(NUMBERS, st.booleans(), st.just("256M")),
)


@given(figures=FIGURES, in_force=SETTINGS, total=st.one_of(st.none(), st.integers(0, 1 << 60)))
@settings(max_examples=150, deadline=None)
def test_whatever_a_log_or_a_configuration_says_a_decision_is_made(figures, in_force, total):
    model = ModelFacts(for_memory=model_of("llama-3.1-8b"))
    for failure, phase in (
        (Failure.GPU_OUT_OF_MEMORY, Phase.LOAD),
        (Failure.KV_CACHE_TOO_SMALL, Phase.KV_PLAN),
    ):
        death = case(failure, phase, None, figures, asked=in_force, model=model, host_gpus=2)
        watching = replace(death, gpu_total_bytes=total, adapt=AdaptSpec(mode=Mode.OBSERVE))
        assert decide(watching).reason
