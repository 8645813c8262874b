"""Sequences, tokens, budget and context are chosen together, and with what was measured before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.decide.cases import ASKED, TOTAL, case, oom
from vllm_warden.core.decide import budget
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Decision, Remedy
from vllm_warden.core.decide.observation import Observation
from vllm_warden.core.decide.peak import measured
from vllm_warden.core.decide.policy import decide
from vllm_warden.core.model import GIB, MIB, Failure, Phase, Site
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, ModelFacts

MODEL = ModelFacts(vocab_size=200_064, layers=62, kv_heads=8, head_dim=128)
SAMPLER = 1024 * 200_064 * 50


def changed(decision: Decision) -> dict[str, Any]:
    return {change.setting: change.after for change in decision.changes}


def planned(peak: float, available: float, request: float | None = None, **more: Any) -> Case:
    """A death at KV planning with this measured peak, and these bytes left for the cache."""
    settings = more.pop("asked", ASKED)
    requested = settings["gpu_memory_utilization"] * TOTAL
    figures: dict[str, int | float | str] = {
        "weights_bytes": requested - peak - available,
        "available_kv_bytes": available,
        "available_bytes": available,
    }
    if request is not None:
        figures |= {"needed_bytes": request, "max_model_len": settings["max_model_len"]}
    return case(
        Failure.KV_CACHE_TOO_SMALL,
        Phase.KV_PLAN,
        Site.KV_CACHE,
        figures,
        asked=settings,
        gpu_total_bytes=TOTAL,
        model=more.pop("model", MODEL),
        **more,
    )


def allows(**bounds: Bounds) -> AdaptSpec:
    return AdaptSpec(knobs=bounds)


def test_without_any_cache_block_the_need_comes_from_the_model_s_shape() -> None:
    decision = decide(planned(12 * GIB, -3 * GIB, asked={**ASKED, "max_model_len": 8192}))

    assert decision.remedy is Remedy.RELAUNCH_WITH
    # 9 GiB for both; one request of 8192 tokens x 2 x 8 x 128 x 62 x 2 bytes: 1.94 GiB
    assert changed(decision)["max_num_seqs"] < 1024
    assert changed(decision)["max_num_batched_tokens"] == 2048
    assert "1.94 GiB" in "\n".join(decision.arithmetic)


def test_a_larger_budget_goes_no_further_than_the_identity_lets_it() -> None:
    adapt = allows(gpu_memory_utilization=Bounds(min=0.8, max=0.99))
    asked = {**ASKED, "gpu_memory_utilization": 0.8}
    decision = decide(planned(3 * GIB, 2 * GIB, 4 * GIB, adapt=adapt, asked=asked))

    # 95.59 - 0.51 context - 1.5 graphs - (0.3 + 0.04 x 3) margin - 0.4 for what nobody printed
    room = TOTAL - 520 * MIB - (1.5 + 0.3 + 0.12 + 0.4) * GIB
    assert changed(decision)["gpu_memory_utilization"] == pytest.approx(room / TOTAL, abs=2e-4)


def test_what_was_free_at_launch_bounds_a_larger_budget() -> None:
    adapt = allows(gpu_memory_utilization=Bounds(min=0.5, max=0.99))
    asked = {**ASKED, "gpu_memory_utilization": 0.6}
    alone = planned(3 * GIB, 2 * GIB, 4 * GIB, adapt=adapt, asked=asked)
    beside = replace(alone, free_at_launch_bytes=TOTAL - 20 * GIB)
    lost = (
        changed(decide(alone))["gpu_memory_utilization"]
        - changed(decide(beside))["gpu_memory_utilization"]
    )

    assert lost == pytest.approx(20 * GIB / TOTAL, abs=2e-4)


def test_a_budget_that_failed_before_is_an_upper_bound_for_a_larger_one() -> None:
    adapt = allows(gpu_memory_utilization=Bounds(min=0.8, max=0.99))
    asked = {**ASKED, "gpu_memory_utilization": 0.9}
    died = Observation(
        10.0, Failure.GPU_OUT_OF_MEMORY, Phase.WARMUP, {"gpu_memory_utilization": 0.93}
    )
    death = planned(3 * GIB, 3 * GIB, 4 * GIB, adapt=adapt, asked=asked)
    decision = decide(replace(death, observations=(died,)))

    assert 0.9 < changed(decision)["gpu_memory_utilization"] <= 0.93 - 300 * MIB / TOTAL


def test_a_shorter_context_comes_last_and_only_where_it_is_allowed() -> None:
    bounds = {
        "max_num_seqs": Bounds(min=1024),
        "max_num_batched_tokens": Bounds(min=8192),
    }
    stuck = planned(5 * GIB, 3 * GIB, 5 * GIB, adapt=allows(**bounds))
    assert decide(stuck).remedy is Remedy.HOLD

    allowed = allows(**bounds, max_model_len=Bounds(min=8192))
    decision = decide(replace(stuck, adapt=allowed))

    # (3 GiB - 64 MiB) / (5 GiB / 131072 tokens), in steps of 16
    assert changed(decision) == {"max_model_len": 76992}


def test_the_least_demanding_settings_get_one_try_where_little_is_missing() -> None:
    bounds = {"max_num_seqs": Bounds(min=512), "max_num_batched_tokens": Bounds(min=4096)}
    death = planned(SAMPLER, 3 * GIB, 3 * GIB + 0.45 * SAMPLER + 500 * MIB, adapt=allows(**bounds))
    decision = decide(death)
    assert changed(decision) == {"max_num_seqs": 512, "max_num_batched_tokens": 4096}
    assert "one try" in decision.reason

    settings = {**ASKED, "max_num_seqs": 512, "max_num_batched_tokens": 4096}
    assert decide(replace(death, in_force=settings)).remedy is Remedy.HOLD


def test_state_blocks_are_the_number_of_sequences() -> None:
    figures: dict[str, int | float | str] = {"max_num_seqs": 1024, "mamba_blocks": 431}
    decision = decide(case(Failure.KV_CACHE_TOO_SMALL, Phase.KV_ALLOC, Site.KV_CACHE, figures))

    assert changed(decision) == {"max_num_seqs": 416}


def test_a_peak_that_stayed_with_fewer_tokens_is_the_sampler_s() -> None:
    peak = SAMPLER + 2 * GIB
    now = planned(peak, 2 * GIB, 4 * GIB, asked={**ASKED, "max_num_batched_tokens": 4096})
    found = measured(now, peak)
    assert found is not None
    assert not found.is_samplers

    before = planned(peak, 2 * GIB, 4 * GIB)
    seen = Observation(
        1.0,
        Failure.KV_CACHE_TOO_SMALL,
        Phase.KV_PLAN,
        {name: float(value) for name, value in ASKED.items()},
        before.diagnosis.figures,
    )
    found = measured(replace(now, observations=(seen,)), peak)
    assert found is not None
    assert found.is_samplers


def test_before_0_11_the_buffers_of_nccl_are_part_of_the_measured_peak() -> None:
    two = {**ASKED, "tensor_parallel_size": 2}
    newer = planned(SAMPLER + 2 * GIB, 2 * GIB, asked=two)
    older = replace(newer, diagnosis=replace(newer.diagnosis, engine_version="0.9.2"))

    assert budget.nccl_in_peak(newer) == 0
    assert budget.nccl_in_peak(older) > 0


def test_graphs_are_extrapolated_from_the_progress_of_their_capture() -> None:
    pools: dict[str, float | str] = {"private_pools_bytes": GIB, "allocated_bytes": 90 * GIB}
    half = oom(Phase.CUDAGRAPH, Site.CUDA_GRAPHS, **pools, graphs_captured=20, graphs_sizes=40)
    done = oom(Phase.CUDAGRAPH, Site.CUDA_GRAPHS, **pools, graphs_captured=40, graphs_sizes=40)

    assert budget.real_graphs(half)[0] == 2 * GIB
    less = (
        changed(decide(done))["gpu_memory_utilization"]
        - changed(decide(half))["gpu_memory_utilization"]
    )
    assert less == pytest.approx(GIB / TOTAL, abs=2e-4)


def under_load(**more: Any) -> Case:
    death = oom(Phase.SERVING, None, free_bytes=int(1.5 * GIB))
    entry = replace(death.entry, was_ready=True, after_soak=True, at_seconds=200_000.0)
    return replace(death, entry=entry, **more)


def served(at_seconds: float, *, changed_settings: bool) -> Observation:
    return Observation(
        at_seconds, Failure.GPU_OUT_OF_MEMORY, Phase.SERVING, {}, {}, changed_settings
    )


def test_the_second_serving_death_within_a_day_adapts_whatever_soaked_between() -> None:
    assert decide(under_load()).remedy is Remedy.RELAUNCH
    old = (served(100_000.0, changed_settings=False),)
    assert decide(under_load(observations=old)).remedy is Remedy.RELAUNCH
    recent = (served(150_000.0, changed_settings=False),)
    assert changed(decide(under_load(observations=recent))) == {"gpu_memory_utilization": 0.93}


def test_each_further_step_under_load_is_doubled() -> None:
    before = (served(150_000.0, changed_settings=True),)

    assert changed(decide(under_load(observations=before))) == {"gpu_memory_utilization": 0.91}


@pytest.mark.parametrize(("share", "remedy"), [(False, Remedy.WAIT), (True, Remedy.RELAUNCH_WITH)])
def test_a_neighbour_that_grew_is_waited_for_unless_sharing_is_allowed(
    share: bool, remedy: Remedy
) -> None:
    taken: dict[str, float | str] = {
        "other_processes": f"31337:{8 * GIB}",
        "other_processes_bytes": 8 * GIB,
        "allocated_bytes": 84 * GIB,
        "graphs_bytes": 1 * GIB,
    }
    death = oom(Phase.WARMUP, Site.SAMPLER, **taken)
    adapt = AdaptSpec(
        knobs={"gpu_memory_utilization": Bounds(min=0.4)}, share_with_neighbours=share
    )
    decision = decide(replace(death, adapt=adapt, free_at_launch_bytes=TOTAL))

    assert decision.remedy is remedy
    if not share:
        assert "31337" in "\n".join(decision.arithmetic)


@pytest.mark.parametrize("version", ["0.9.2", "0.15.1", "0.20.2", "0.33.0", "1.0"])
def test_a_sampler_that_died_in_profiling_needs_more_than_it_had_whatever_the_formula_says(
    version: str,
) -> None:
    death = oom(Phase.PROFILE, Site.SAMPLER, weights_bytes=70 * GIB)
    diagnosis = replace(death.diagnosis, engine_version=version)
    decision = decide(replace(death, diagnosis=diagnosis))

    assert changed(decision)["max_num_seqs"] < 1024


@pytest.mark.parametrize("share", [False, True])
def test_the_start_up_check_of_one_who_shares_is_passed_with_what_it_found_free(
    share: bool,
) -> None:
    found: dict[str, int | float | str] = {"free_bytes": 80 * GIB, "total_bytes": TOTAL}
    adapt = AdaptSpec(
        knobs={"gpu_memory_utilization": Bounds(min=0.4)}, share_with_neighbours=share
    )
    decision = decide(case(Failure.GPU_MEMORY_TAKEN, Phase.INIT_DEVICE, None, found, adapt=adapt))

    # 80 GiB free after context and NCCL, less 1.5 for graphs and 0.7 margin, of 95.59
    expected = {"gpu_memory_utilization": 0.8138} if share else {}
    assert changed(decision) == expected
    assert decision.remedy is (Remedy.RELAUNCH_WITH if share else Remedy.WAIT)
