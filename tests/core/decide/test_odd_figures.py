"""Nonsense in a log, however large, costs no daemon its life and no engine a setting."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.decide.cases import ASKED, TORCH_OOM, case, oom
from vllm_warden.core.decide.bounded import within_bounds
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Change, Remedy
from vllm_warden.core.decide.knobs import allowed_ranges, number
from vllm_warden.core.decide.observation import Observation
from vllm_warden.core.decide.plausible import plausible
from vllm_warden.core.decide.policy import decide
from vllm_warden.core.decide.proposal import Proposal
from vllm_warden.core.model import GIB, Failure, Phase, Site
from vllm_warden.core.plan.spec import AdaptSpec, Bounds

NAMES = (
    *TORCH_OOM,
    *("available_bytes", "available_kv_bytes", "dummy_requests", "estimated_max_model_len"),
    *("graphs_bytes", "graphs_captured", "graphs_estimated_bytes", "graphs_sizes", "kv_tokens"),
    *("mamba_blocks", "max_model_len", "needed_bytes", "other_processes_bytes"),
    *("private_pools_bytes", "reserved_unallocated_bytes", "weights_bytes"),
)
VALUES = (
    st.integers(0, 140 * GIB)
    | st.sampled_from(
        [0, -1, 0.5, math.nan, math.inf, -math.inf, 1e308, 5e-324, 10**300, -(10**18)]
    )
    | st.floats()
    | st.just("nan")
)
BOUNDS = st.none() | st.just(Bounds(allowed=False)) | st.just(Bounds(min=128.5, max=2**20))
ASKED_ALL = {**ASKED, "kv_cache_memory_bytes": 16 * GIB}


@given(
    st.sampled_from(Failure),
    st.sampled_from([None, *Phase]),
    st.sampled_from([None, *Site]),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
    st.dictionaries(st.sampled_from(["max_num_seqs", "max_model_len"]), BOUNDS),
)
def test_no_figure_raises_or_leaves_the_bounds(failure, phase, site, figures, bounds) -> None:
    knobs = {name: bound for name, bound in bounds.items() if bound is not None}
    adapt = AdaptSpec(knobs=knobs, min_concurrency_fraction=0.0)
    seen = Observation(0.0, failure, phase, {"max_num_seqs": 1024.0}, figures)
    death = case(failure, phase, site, figures, asked=ASKED_ALL, adapt=adapt, observations=[seen])

    decision = decide(death)

    ranges = allowed_ranges(adapt, {name: float(value) for name, value in ASKED_ALL.items()})
    for change in decision.changes:
        allowed, after = ranges[change.setting], number(change.after)
        assert after is not None
        assert allowed.low <= after <= allowed.high, change
        assert change.setting == "gpu_memory_utilization" or isinstance(change.after, int)
    said = (decision.reason, *decision.arithmetic, *decision.options)
    assert not any(word in line.split() for line in said for word in ("nan", "inf", "-inf"))


MEMORY = (Failure.GPU_OUT_OF_MEMORY, Failure.KV_CACHE_TOO_SMALL, Failure.GPU_MEMORY_TAKEN)
ODD = (math.nan, math.inf, -math.inf, -1, 5e-324, 1e308, 10**300)


@pytest.mark.parametrize("failure", MEMORY)
@pytest.mark.parametrize("odd", ODD, ids=lambda value: f"{value:.0e}")
def test_an_odd_figure_is_as_good_as_none(failure: Failure, odd: float) -> None:
    whole: dict[str, int | float | str] = dict.fromkeys(NAMES, 8 * GIB)
    for phase in Phase:
        for name in (name for name in NAMES if not (odd == -1 and name.startswith("available"))):
            without = {other: value for other, value in whole.items() if other != name}

            assert decide(case(failure, phase, None, {**whole, name: odd})) == decide(
                case(failure, phase, None, without)
            )


def test_what_no_log_of_a_real_death_holds_is_left_out() -> None:
    odd = {"a": math.nan, "b": -math.inf, "c": -1, "d": 1 << 60, "e": True, "free_bytes": 5}

    assert plausible({**odd, "available_kv_bytes": -GIB, "name": "x"}) == {
        "free_bytes": 5,
        "available_kv_bytes": -GIB,
        "name": "x",
    }


def _with_knob(death: Case, setting: str, bounds: Bounds) -> Case:
    adapt = AdaptSpec(knobs={setting: bounds}, min_concurrency_fraction=0.0)
    return replace(death, adapt=adapt)


def test_an_engine_whose_own_default_is_above_the_bound_comes_back_within_it() -> None:
    # nobody asked for a number of tokens, so the file's text has no contradiction
    asked = {name: value for name, value in ASKED.items() if name != "max_num_batched_tokens"}
    death = replace(
        oom(Phase.PROFILE, Site.ACTIVATIONS),
        asked=asked,
        in_force=asked,
        defaults={"max_num_batched_tokens": 8192},
    )

    decision = decide(_with_knob(death, "max_num_batched_tokens", Bounds(min=256, max=2048)))

    assert [one.after for one in decision.changes if one.setting == "max_num_batched_tokens"] == [
        2048
    ]


@pytest.mark.parametrize(("low", "high", "lowest", "highest"), [(128.5, 900.5, 129, 900)])
def test_bounds_of_counts_are_counts(low: float, high: float, lowest: int, highest: int) -> None:
    adapt = AdaptSpec(knobs={"max_num_seqs": Bounds(min=low, max=high)})

    assert allowed_ranges(adapt, {"max_num_seqs": 800.0})["max_num_seqs"].low == lowest
    assert allowed_ranges(adapt, {"max_num_seqs": 800.0})["max_num_seqs"].high == highest


def test_a_tiny_utilization_is_not_lowered_to_none() -> None:
    ranges = allowed_ranges(AdaptSpec(), {"gpu_memory_utilization": 0.05})

    assert ranges["gpu_memory_utilization"].low == 0.01


@pytest.mark.parametrize(
    ("change", "bounds", "words"),
    [
        (Change("max_num_seqs", 1024, 64), Bounds(min=128), "at least 128 is allowed"),
        (Change("max_num_seqs", 1024, 64), Bounds(allowed=False), "allows no change"),
    ],
)
def test_what_would_have_to_be_beyond_the_bounds_is_a_hold_that_names_them(
    change: Change, bounds: Bounds, words: str
) -> None:
    death = _with_knob(oom(Phase.PROFILE, Site.SAMPLER), "max_num_seqs", bounds)

    held = within_bounds(death, Proposal(Remedy.RELAUNCH_WITH, "too much", (change,)))

    assert (held.remedy, held.changes) == (Remedy.HOLD, ())
    assert words in held.reason
    assert "adapt.max_num_seqs" in held.reason


def test_a_bound_never_leaves_fewer_tokens_than_sequences() -> None:
    death = oom(Phase.PROFILE, Site.ACTIVATIONS)
    death = _with_knob(death, "max_num_batched_tokens", Bounds(min=16, max=512))
    change = Change("max_num_batched_tokens", 8192, 4096)

    held = within_bounds(death, Proposal(Remedy.RELAUNCH_WITH, "too much", (change,)))

    assert held.remedy is Remedy.HOLD
    assert "adapt.max_num_batched_tokens.max" in held.reason
