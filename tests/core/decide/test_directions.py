"""The right knob in the right direction for every failure; nothing that cannot help is tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.decide.cases import ASKED, TORCH_OOM, TOTAL, case, oom
from vllm_warden.core.decide.decision import Decision, Remedy
from vllm_warden.core.decide.policy import decide
from vllm_warden.core.decide.remedies import REMEDIES
from vllm_warden.core.diagnose.evidence import HostLimits
from vllm_warden.core.model import GIB, Failure, Phase, Site
from vllm_warden.core.plan.spec import AdaptSpec, Bounds


def changed(decision: Decision) -> dict[str, object]:
    return {change.setting: change.after for change in decision.changes}


def test_every_failure_has_a_remedy() -> None:
    assert set(REMEDIES) == set(Failure)


@pytest.mark.parametrize("failure", Failure)
@pytest.mark.parametrize("phase", [None, *Phase])
@pytest.mark.parametrize("has_gpus", [True, False])
def test_deciding_never_fails_and_every_hold_says_why(
    failure: Failure, phase: Phase | None, has_gpus: bool
) -> None:
    decision = decide(case(failure, phase, has_gpus=has_gpus))

    assert decision.reason
    assert (decision.remedy is Remedy.RELAUNCH_WITH) == bool(decision.changes)


@pytest.mark.parametrize("failure", Failure)
@pytest.mark.parametrize("phase", [None, *Phase])
@pytest.mark.parametrize("site", [None, *Site])
def test_nothing_moves_out_of_bounds_upwards_or_without_memory_failure(
    failure: Failure, phase: Phase | None, site: Site | None
) -> None:
    decision = decide(case(failure, phase, site, dict(TORCH_OOM)))

    for change in decision.changes:
        assert failure in (
            Failure.GPU_OUT_OF_MEMORY,
            Failure.HOST_OUT_OF_MEMORY,
            Failure.KV_CACHE_TOO_SMALL,
        )
        assert change.setting != "max_model_len"
        assert float(str(change.after)) < float(str(change.before))


def test_sampler_oom_in_profiling_leaves_room_for_the_next_wall_as_well() -> None:
    decision = decide(oom(Phase.PROFILE, Site.SAMPLER, weights_bytes=int(85 * GIB)))

    # budget: 92.5 - 1.5 graphs - (0.3 + 0.04 x 7.5) = 90.4 GiB; less weights and 64 MiB 5.33 GiB
    # for the batch: over 1.07 x 200064 x 50 bytes 535 rows; forward (5.33 - 0.3) / 7.2 of 8192
    assert changed(decision) == {
        "gpu_memory_utilization": 0.9456,
        "max_num_seqs": 528,
        "max_num_batched_tokens": 5632,
    }


def test_sampler_oom_in_profiling_without_numbers_takes_a_quarter_never_a_half() -> None:
    decision = decide(case(Failure.GPU_OUT_OF_MEMORY, Phase.PROFILE, Site.SAMPLER))

    assert changed(decision) == {"max_num_seqs": 256}


def test_the_address_space_limit_of_a_cpu_engine_gives_the_number_of_sequences() -> None:
    limits = HostLimits(address_space_bytes=6 * GIB, address_space_used_bytes=int(2.4 * GIB))
    decision = decide(
        case(
            Failure.HOST_OUT_OF_MEMORY,
            Phase.PROFILE,
            Site.SAMPLER,
            has_gpus=False,
            limits=limits,
            engine_version="0.32.0",
            asked={**ASKED, "max_num_seqs": 2048},
        )
    )

    # half of the 3.6 GiB left, over 200064 x 18 bytes
    assert changed(decision) == {"max_num_seqs": 528}


def test_a_cpu_engine_without_a_known_limit_goes_to_a_quarter() -> None:
    decision = decide(case(Failure.HOST_OUT_OF_MEMORY, Phase.PROFILE, Site.SAMPLER, has_gpus=False))

    assert changed(decision) == {"max_num_seqs": 256}


@pytest.mark.parametrize(
    ("phase", "site"),
    [
        (Phase.WARMUP, Site.SAMPLER),
        (Phase.CUDAGRAPH, Site.CUDA_GRAPHS),
        (Phase.KERNELS, Site.KERNELS),
        (Phase.KV_ALLOC, Site.KV_CACHE),
        (Phase.WARMUP, Site.ACTIVATIONS),
    ],
)
def test_after_the_kv_cache_only_utilization_moves_and_by_the_identity(
    phase: Phase, site: Site
) -> None:
    decision = decide(oom(phase, site, graphs_bytes=int(1 * GIB)))

    # (92.5 - 1.0 graphs - 0.7 margin) / total, four decimals down
    expected = int((92.5 - 1.0 - 0.7) * GIB / TOTAL * 10_000) / 10_000
    value = changed(decision)["gpu_memory_utilization"]
    assert set(changed(decision)) == {"gpu_memory_utilization"}
    assert value == pytest.approx(min(expected, 0.95 - 300 / 97_887), abs=2e-4)
    assert any(one.setting == "max_num_seqs" for one in decision.useless)


def test_a_budgeted_graph_estimate_is_not_taken_twice() -> None:
    without = decide(oom(Phase.WARMUP, Site.SAMPLER, graphs_bytes=3 * GIB))
    with_estimate = decide(
        oom(Phase.WARMUP, Site.SAMPLER, graphs_bytes=3 * GIB, graphs_estimated_bytes=3 * GIB)
    )

    assert float(str(changed(with_estimate)["gpu_memory_utilization"])) > float(
        str(changed(without)["gpu_memory_utilization"])
    )


def test_graphs_that_only_torch_names_count_as_well() -> None:
    named = decide(oom(Phase.WARMUP, Site.SAMPLER, private_pools_bytes=3 * GIB))
    logged = decide(oom(Phase.WARMUP, Site.SAMPLER, graphs_bytes=3 * GIB))

    assert changed(named) == changed(logged)


def test_a_budget_that_failed_though_the_numbers_allow_it_steps_back() -> None:
    figures: dict[str, float | str] = {
        "free_bytes": 0.1 * GIB,
        "tried_bytes": 0.6 * GIB,
        "allocated_bytes": 95 * GIB,
        "other_processes": f"77:{GIB}",
        "other_processes_bytes": GIB,
    }
    decision = decide(oom(Phase.KV_ALLOC, Site.KV_CACHE, **figures))

    assert decision.remedy is Remedy.RELAUNCH_WITH
    (change,) = decision.changes
    assert change.setting == "gpu_memory_utilization"
    # by what was missing, more than the usual 300 MiB
    assert change.after == pytest.approx(0.95 - 0.5 * GIB / TOTAL, abs=0.0001)


def test_utilization_beyond_its_bound_is_a_hold_with_the_arithmetic() -> None:
    decision = decide(oom(Phase.WARMUP, Site.SAMPLER, allocated_bytes=int(70 * GIB)))

    assert decision.remedy is Remedy.HOLD
    assert decision.arithmetic
    assert "0.85" in decision.reason


def test_weights_that_do_not_fit_are_given_up_and_utilization_is_called_useless() -> None:
    decision = decide(oom(Phase.LOAD, Site.WEIGHTS))

    assert decision.remedy is Remedy.GIVE_UP
    assert {"gpu_memory_utilization", "enable_expert_parallel"} <= {
        one.setting for one in decision.useless
    }


def test_weights_that_met_a_neighbour_wait_for_it() -> None:
    decision = decide(oom(Phase.LOAD, Site.WEIGHTS, other_processes="4711:40000000000"))

    assert decision.remedy is Remedy.WAIT


def test_activations_in_profiling_lower_the_batch_never_below_the_sequences() -> None:
    assert changed(decide(oom(Phase.PROFILE, Site.ACTIVATIONS))) == {"max_num_batched_tokens": 4096}
    crowded = {**ASKED, "max_num_seqs": 6000}
    decision = decide(
        case(Failure.GPU_OUT_OF_MEMORY, Phase.PROFILE, Site.ACTIVATIONS, asked=crowded)
    )
    assert changed(decision) == {"max_num_batched_tokens": 6000}


def test_a_default_that_is_lowered_is_shown_as_the_whole_number_it_is() -> None:
    bare = case(
        Failure.GPU_OUT_OF_MEMORY,
        Phase.PROFILE,
        Site.ACTIVATIONS,
        asked={"max_num_seqs": 256},
        defaults={"max_num_batched_tokens": 8192},
    )
    (change,) = decide(bare).changes

    assert (repr(change.before), repr(change.after)) == ("8192", "4096")


def test_a_refused_option_is_named_in_the_reason() -> None:
    refused = case(
        Failure.CONFIGURATION_INVALID, Phase.ARGS, figures={"option": "--no-such-option"}
    )

    assert "--no-such-option" in decide(refused).reason


def test_a_kv_cache_that_is_too_small_never_lowers_utilization() -> None:
    figures: dict[str, int | float | str] = {
        "needed_bytes": 8 * GIB,
        "available_bytes": 5 * GIB,
        "estimated_max_model_len": 80_000,
    }
    decision = decide(case(Failure.KV_CACHE_TOO_SMALL, Phase.KV_PLAN, Site.KV_CACHE, figures))

    assert decision.remedy is Remedy.HOLD
    assert "max_model_len" in decision.reason
    assert any(one.setting == "gpu_memory_utilization" for one in decision.useless)


def test_the_printed_estimate_is_taken_where_a_shorter_context_is_allowed() -> None:
    adapt = AdaptSpec(knobs={"max_model_len": Bounds(min=8192)})
    figures: dict[str, int | float | str] = {"estimated_max_model_len": 80_000}
    decision = decide(
        case(Failure.KV_CACHE_TOO_SMALL, Phase.KV_PLAN, Site.KV_CACHE, figures, adapt=adapt)
    )

    assert changed(decision) == {"max_model_len": 80_000}


def test_an_estimate_below_the_allowed_context_is_a_hold() -> None:
    adapt = AdaptSpec(knobs={"max_model_len": Bounds(min=100_000)})
    figures: dict[str, int | float | str] = {"estimated_max_model_len": 80_000}
    decision = decide(
        case(Failure.KV_CACHE_TOO_SMALL, Phase.KV_PLAN, Site.KV_CACHE, figures, adapt=adapt)
    )

    assert decision.remedy is Remedy.HOLD


def test_a_larger_budget_is_taken_first_where_the_operator_allowed_one() -> None:
    adapt = AdaptSpec(knobs={"gpu_memory_utilization": Bounds(min=0.8, max=0.97)})
    figures: dict[str, int | float | str] = {"estimated_max_model_len": 80_000}
    decision = decide(
        case(Failure.KV_CACHE_TOO_SMALL, Phase.KV_PLAN, Site.KV_CACHE, figures, adapt=adapt)
    )

    assert changed(decision) == {"gpu_memory_utilization": 0.97}


def test_sampler_dominated_peaks_give_their_bytes_to_the_cache() -> None:
    sampler = 1024 * 200_064 * 50
    available = int(3 * GIB)
    weights = int(0.95 * TOTAL) - sampler - available
    figures: dict[str, int | float | str] = {
        "weights_bytes": weights,
        "available_bytes": available,
        "needed_bytes": int(5 * GIB),
        "estimated_max_model_len": 78_000,
    }
    decision = decide(
        case(
            Failure.KV_CACHE_TOO_SMALL,
            Phase.KV_PLAN,
            Site.KV_CACHE,
            figures,
            gpu_total_bytes=TOTAL,
        )
    )

    # 3 - 5 GiB and 64 MiB less of the peak, 9.54 GiB: 802 rows; the forward pass may be as large
    assert changed(decision) == {"max_num_seqs": 800, "max_num_batched_tokens": 6144}


@pytest.mark.parametrize(
    "failure",
    [
        Failure.CONFIGURATION_INVALID,
        Failure.PARALLELISM_INVALID,
        Failure.MODEL_UNSUPPORTED,
        Failure.MODEL_UNAVAILABLE,
        Failure.DEPENDENCY_MISMATCH,
    ],
)
def test_what_would_fail_again_is_given_up_at_once(failure: Failure) -> None:
    assert decide(case(failure, Phase.ARGS)).remedy is Remedy.GIVE_UP


@pytest.mark.parametrize("failure", [Failure.PORT_IN_USE, Failure.GPU_MEMORY_TAKEN])
def test_what_may_become_free_is_waited_for(failure: Failure) -> None:
    assert decide(case(failure)).remedy is Remedy.WAIT


def test_the_first_serving_oom_after_the_soak_relaunches_unchanged_the_second_adapts() -> None:
    from dataclasses import replace

    first = oom(Phase.SERVING, Site.ACTIVATIONS)
    soaked = replace(first, entry=replace(first.entry, was_ready=True, after_soak=True))
    assert decide(soaked).remedy is Remedy.RELAUNCH

    again = replace(soaked, ledger=(replace(soaked.entry, at_seconds=500.0),))
    decision = decide(again)
    assert set(changed(decision)) == {"gpu_memory_utilization"}
    assert float(str(decision.changes[0].after)) < 0.95


@pytest.mark.parametrize(("now", "then"), [(1024, 128), (256, 128), (64, 32)])
def test_a_trial_capture_that_does_not_fit_gets_smaller_graphs_not_fewer_tokens(
    now: int, then: int
) -> None:
    example = oom(Phase.PROFILE, Site.CUDA_GRAPHS)
    settings = {**example.in_force, "max_num_seqs": now}
    decision = decide(replace(example, asked=settings, in_force=settings))

    assert changed(decision) == {"max_num_seqs": then}
    assert {one.setting for one in decision.useless} >= {
        "max_num_batched_tokens",
        "gpu_memory_utilization",
    }
