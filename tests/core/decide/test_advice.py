"""Advice without a daemon: the daemon's decisions, with no bounds but what helps."""

from __future__ import annotations

import pytest

from vllm_warden.core.decide.advice import advise
from vllm_warden.core.decide.decision import Decision, Remedy
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.model import GIB, Confidence, Failure, Phase, Settings, Site


def advice(diagnosis: Diagnosis, **settings: float | str) -> Decision:
    return advise(diagnosis, Evidence((), settings=settings))


def changes(decision: Decision) -> dict[str, object]:
    return {change.setting: change.after for change in decision.changes}


def small(**figures: float) -> Diagnosis:
    return Diagnosis(Failure.KV_CACHE_TOO_SMALL, Phase.KV_PLAN, Site.KV_CACHE, "x", figures=figures)


def test_the_length_that_vllm_says_fits_is_the_advice_with_or_without_a_setting() -> None:
    diagnosis = small(max_model_len=131072, estimated_max_model_len=34736)
    for settings in ({}, {"max_model_len": 131072}):
        decision = advice(diagnosis, **settings)
        assert decision.remedy is Remedy.RELAUNCH_WITH
        assert changes(decision) == {"max_model_len": 34736}


@pytest.mark.parametrize(("asked", "advised"), [(0.4, 0.95), (0.95, 0.98)])
def test_a_budget_without_room_for_any_cache_is_raised(asked: float, advised: float) -> None:
    decision = advice(small(), gpu_memory_utilization=asked)
    assert changes(decision) == {"gpu_memory_utilization": advised}
    assert decision.changes[0].before == asked


def test_a_budget_that_cannot_be_raised_is_held() -> None:
    assert advice(small(), gpu_memory_utilization=0.98).remedy is Remedy.HOLD


def test_after_the_kv_cache_the_arithmetic_goes_as_far_as_it_must() -> None:
    figures = {
        "total_bytes": 24 * GIB,
        "free_bytes": 1 * GIB,
        "allocated_bytes": 18 * GIB,
        "private_pools_bytes": 1 * GIB,
    }
    decision = advice(
        Diagnosis(
            Failure.GPU_OUT_OF_MEMORY, Phase.CUDAGRAPH, Site.CUDA_GRAPHS, "x", figures=figures
        ),
        gpu_memory_utilization=0.95,
    )
    after = changes(decision)["gpu_memory_utilization"]
    assert isinstance(after, float)
    assert after < 0.85  # further than the daemon's default bound


@pytest.mark.parametrize("site", [Site.COMMUNICATION, None])
def test_before_anything_is_loaded_a_full_gpu_is_waited_for(site: Site | None) -> None:
    diagnosis = Diagnosis(Failure.GPU_OUT_OF_MEMORY, Phase.INIT_DEVICE, site, "x")
    assert advice(diagnosis, gpu_memory_utilization=0.9).remedy is Remedy.WAIT


def test_weights_that_do_not_fit_stay_hopeless() -> None:
    diagnosis = Diagnosis(Failure.GPU_OUT_OF_MEMORY, Phase.LOAD, Site.WEIGHTS, "x")
    assert advice(diagnosis, gpu_memory_utilization=0.9).remedy is Remedy.GIVE_UP


def test_an_encoder_that_does_not_fit_in_profiling_gets_a_smaller_batch() -> None:
    diagnosis = Diagnosis(Failure.GPU_OUT_OF_MEMORY, Phase.PROFILE, Site.ENCODER, "x")
    decision = advice(diagnosis, max_num_batched_tokens=8192, max_num_seqs=64)
    assert changes(decision) == {"max_num_batched_tokens": 4096}
    assert "limit_mm_per_prompt" in decision.options[0]


@pytest.mark.parametrize(("version", "moves"), [("0.27.1", True), ("0.15.1", False)])
def test_a_cpu_engine_s_budget_is_its_fixed_size_where_the_version_takes_it_so(
    version: str, moves: bool
) -> None:
    diagnosis = Diagnosis(
        Failure.HOST_OUT_OF_MEMORY,
        Phase.KV_ALLOC,
        Site.KV_CACHE,
        "x",
        figures={"available_kv_bytes": 8 * GIB, "tried_bytes": 4 * GIB},
        engine_version=version,
    )
    decision = advice(diagnosis)
    assert decision.remedy is (Remedy.RELAUNCH_WITH if moves else Remedy.HOLD)
    assert changes(decision) == ({"kv_cache_memory_bytes": 4 * GIB} if moves else {})


def test_settings_are_read_whatever_the_engine_printed_among_them() -> None:
    settings: Settings = {"gpu_memory_utilization": 0.9}
    assert advise(small(), Evidence((), settings=settings)).remedy is Remedy.RELAUNCH_WITH


def test_a_sampler_that_may_have_died_before_or_after_the_kv_cache_gets_what_helps_in_both() -> (
    None
):
    diagnosis = Diagnosis(
        Failure.GPU_OUT_OF_MEMORY,
        Phase.WARMUP,
        Site.SAMPLER,
        "x",
        Confidence.LIKELY,
        figures={"dummy_requests": 1024},
    )
    decision = advice(diagnosis, gpu_memory_utilization=0.9, max_num_seqs=1024)
    assert changes(decision) == {"gpu_memory_utilization": 0.85, "max_num_seqs": 256}


@pytest.mark.parametrize(
    ("tried_gib", "unallocated_gib", "named"), [(2, 3, True), (2, 1, False), (0, 3, False)]
)
def test_memory_that_lies_in_pieces_is_named_as_such(
    tried_gib: int, unallocated_gib: int, named: bool
) -> None:
    figures = {"tried_bytes": tried_gib * GIB, "reserved_unallocated_bytes": unallocated_gib * GIB}
    diagnosis = Diagnosis(Failure.GPU_OUT_OF_MEMORY, Phase.SERVING, None, "x", figures=figures)
    options = advice(diagnosis, gpu_memory_utilization=0.9).options
    assert any("expandable_segments" in option for option in options) is named


def test_a_budget_is_not_raised_above_what_the_log_says_was_free() -> None:
    found = small(free_bytes=13.42 * GIB, total_bytes=15.46 * GIB)
    assert changes(advice(found, gpu_memory_utilization=0.02)) == {"gpu_memory_utilization": 0.86}
    assert advice(found, gpu_memory_utilization=0.9).remedy is Remedy.HOLD


def test_a_trial_run_of_more_requests_than_the_default_tells_the_setting() -> None:
    found = Diagnosis(
        Failure.GPU_OUT_OF_MEMORY,
        Phase.PROFILE,
        Site.SAMPLER,
        "x",
        figures={"dummy_requests": 1024},
    )
    decision = advice(found)
    assert [(change.before, change.after) for change in decision.changes] == [(1024, 256)]


@pytest.mark.parametrize(
    ("phase", "says"), [(Phase.PROFILE, True), (Phase.CUDAGRAPH, False), (Phase.SERVING, False)]
)
def test_a_price_says_only_of_an_early_death_that_there_was_no_cache(
    phase: Phase, says: bool
) -> None:
    found = Diagnosis(Failure.GPU_OUT_OF_MEMORY, phase, Site.SAMPLER, "x")
    price = advice(found).price
    assert price is not None
    assert ("before the KV cache was planned" in price.note) is says


@pytest.mark.parametrize(
    ("signal", "option"), [(9, "out-of-memory killer"), (None, "OOMKilled"), (11, "coredumpctl")]
)
def test_of_a_killed_process_nothing_is_claimed_that_the_log_does_not_show(
    signal: int | None, option: str
) -> None:
    figures = {} if signal is None else {"signal": signal}
    decision = advice(
        Diagnosis(Failure.KILLED_BY_SIGNAL, Phase.SERVING, None, "x", figures=figures)
    )
    assert decision.remedy is Remedy.RELAUNCH
    assert "not at fault" not in decision.reason
    assert any(option in one for one in decision.options)


def test_nobody_set_a_bound_for_the_profiled_batch() -> None:
    found = Diagnosis(Failure.GPU_OUT_OF_MEMORY, Phase.PROFILE, Site.ACTIVATIONS, "x")
    assert changes(advice(found)) == {"max_num_batched_tokens": 1024}
