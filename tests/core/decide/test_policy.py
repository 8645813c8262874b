"""Modes, price, budgets and bounds stand above every remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.decide.cases import ASKED, case, oom
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.knobs import allowed_ranges
from vllm_warden.core.decide.ledger import LedgerEntry, delay_before, judge_budget
from vllm_warden.core.decide.policy import decide
from vllm_warden.core.model import GIB, Confidence, Failure, Mode, Phase, Site
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, RestartSpec

ENTRY = LedgerEntry(1000.0, Failure.UNKNOWN, None, was_ready=False, after_soak=False)


@pytest.mark.parametrize("failure", Failure)
def test_mode_restart_never_moves_a_knob(failure: Failure) -> None:
    adapt = AdaptSpec(mode=Mode.RESTART)
    decision = decide(replace(case(failure, Phase.PROFILE, Site.SAMPLER), adapt=adapt))

    assert not decision.changes


@pytest.mark.parametrize("failure", Failure)
def test_mode_observe_never_starts_anything(failure: Failure) -> None:
    adapt = AdaptSpec(mode=Mode.OBSERVE)
    decision = decide(replace(case(failure, Phase.PROFILE, Site.SAMPLER), adapt=adapt))

    assert decision.remedy in (Remedy.HOLD, Remedy.GIVE_UP)


def test_incomplete_evidence_never_moves_a_knob() -> None:
    decision = decide(case(Failure.GPU_OUT_OF_MEMORY, Phase.PROFILE, Site.SAMPLER, incomplete=True))

    assert decision.remedy is Remedy.RELAUNCH
    assert "incomplete" in decision.reason


def _extrapolated(one: Case) -> Case:
    return replace(one, diagnosis=replace(one.diagnosis, confidence=Confidence.EXTRAPOLATED))


def test_of_a_version_newer_than_the_catalogue_what_the_log_has_figures_for_is_cured() -> None:
    death = oom(Phase.WARMUP, Site.SAMPLER)

    assert decide(_extrapolated(death)).changes == decide(death).changes
    assert decide(_extrapolated(death)).remedy is Remedy.RELAUNCH_WITH


@pytest.mark.parametrize(
    ("phase", "site"),
    [
        (Phase.WARMUP, Site.SAMPLER),
        (Phase.PROFILE, Site.SAMPLER),
        (Phase.PROFILE, Site.ACTIVATIONS),
        (Phase.PROFILE, Site.CUDA_GRAPHS),
        (Phase.SERVING, Site.ACTIVATIONS),
    ],
)
def test_of_a_version_newer_than_the_catalogue_no_knob_is_moved_by_a_guess(
    phase: Phase, site: Site
) -> None:
    # what the engine said of itself before it died says nothing of what it lacked
    said: dict[str, int | float | str] = {"weights_bytes": 50 * GIB, "available_kv_bytes": 20 * GIB}
    death = case(Failure.GPU_OUT_OF_MEMORY, phase, site, said)
    decision = decide(_extrapolated(death))

    assert decide(death).remedy is Remedy.RELAUNCH_WITH
    assert (decision.remedy, decision.changes) == (Remedy.RELAUNCH, ())
    assert "only extrapolated" in decision.reason
    assert "would otherwise relaunch with" in decision.reason


def test_a_length_that_the_log_prints_may_be_taken_also_from_a_newer_version() -> None:
    figures: dict[str, int | float | str] = {
        "needed_bytes": 8 * GIB,
        "available_bytes": 4 * GIB,
        "estimated_max_model_len": 57296,
    }
    adapt = AdaptSpec(knobs={"max_model_len": Bounds(min=1024)}, min_concurrency_fraction=0.0)
    death = case(Failure.KV_CACHE_TOO_SMALL, Phase.KV_PLAN, Site.KV_CACHE, figures, adapt=adapt)
    (change,) = decide(_extrapolated(death)).changes

    assert (change.setting, change.after) == ("max_model_len", 57296)


def test_a_forbidden_knob_is_a_hold_that_names_it() -> None:
    adapt = AdaptSpec(knobs={"max_num_seqs": Bounds(allowed=False)})
    decision = decide(case(Failure.GPU_OUT_OF_MEMORY, Phase.PROFILE, Site.SAMPLER, adapt=adapt))

    assert decision.remedy is Remedy.HOLD
    assert "adapt.max_num_seqs = false" in decision.reason


def test_a_dearer_remedy_than_allowed_is_a_hold_with_the_price_shown() -> None:
    wasteful = oom(Phase.PROFILE, Site.SAMPLER, kv_tokens=131072 * 2000)
    wasteful = replace(wasteful, adapt=AdaptSpec(min_concurrency_fraction=0.5))
    decision = decide(wasteful)

    assert decision.remedy is Remedy.HOLD
    assert "min_concurrency_fraction" in decision.reason
    assert decision.price is not None
    assert decision.price.concurrency_fraction == pytest.approx(0.25)


def test_a_price_that_cannot_be_known_says_so_and_does_not_forbid() -> None:
    decision = decide(oom(Phase.PROFILE, Site.SAMPLER))

    assert decision.remedy is Remedy.RELAUNCH_WITH
    assert decision.price is not None
    assert "unknown" in decision.price.note


def test_default_bounds_are_those_of_the_manual() -> None:
    ranges = allowed_ranges(AdaptSpec(), {name: float(value) for name, value in ASKED.items()})

    assert ranges["max_num_seqs"].low == 128
    assert ranges["gpu_memory_utilization"].low == 0.85
    assert ranges["gpu_memory_utilization"].high == 0.95
    assert ranges["max_num_batched_tokens"].low == 2048
    assert "max_model_len" not in ranges


def test_a_few_sequences_are_never_lowered_below_sixteen_nor_raised() -> None:
    assert allowed_ranges(AdaptSpec(), {"max_num_seqs": 64})["max_num_seqs"].low == 16
    assert allowed_ranges(AdaptSpec(), {"max_num_seqs": 8})["max_num_seqs"].low == 8


def test_two_unchanged_repeats_are_allowed_and_a_third_is_not() -> None:
    restart = RestartSpec()
    ledger: list[LedgerEntry] = []
    verdicts = []
    for _ in range(3):
        verdict = judge_budget(ledger, ENTRY, restart, changed=False, jitter_fraction=0)
        verdicts.append(verdict.spent)
        ledger.append(ENTRY)

    assert verdicts[:2] == [None, None]
    assert verdicts[2] is not None


def test_five_failed_starts_spend_the_budget_even_with_changes() -> None:
    ledger = [replace(ENTRY, changed=True)] * 5

    verdict = judge_budget(ledger, ENTRY, RestartSpec(), changed=True, jitter_fraction=0)

    assert verdict.spent is not None


def test_failures_outside_the_window_do_not_count() -> None:
    ledger = [replace(ENTRY, at_seconds=1000.0 - 6 * 3600 - 1)] * 9

    verdict = judge_budget(ledger, ENTRY, RestartSpec(), changed=False, jitter_fraction=0)

    assert verdict.spent is None


def test_crashes_after_the_soak_have_a_budget_of_their_own() -> None:
    crash = replace(ENTRY, was_ready=True, after_soak=True)

    within = judge_budget([ENTRY] * 9, crash, RestartSpec(), changed=False, jitter_fraction=0)
    spent = judge_budget([crash] * 5, crash, RestartSpec(), changed=False, jitter_fraction=0)

    assert within.spent is None
    assert spent.spent is not None


def test_delays_follow_the_manual() -> None:
    restart, crash = RestartSpec(), replace(ENTRY, was_ready=True)

    assert [delay_before(n, ENTRY, restart, 0) for n in range(8)] == [
        5, 10, 20, 40, 80, 160, 300, 300,
    ]  # fmt: skip
    assert [delay_before(n, crash, restart, 0) for n in range(3)] == [0, 5, 10]


@given(st.integers(0, 60), st.floats(0, 0.999), st.booleans())
def test_delays_grow_and_stay_bounded(repeats: int, jitter: float, ready: bool) -> None:
    restart, entry = RestartSpec(), replace(ENTRY, was_ready=ready)

    assert 0 <= delay_before(repeats, entry, restart, jitter) <= 330
    assert delay_before(repeats, entry, restart, 0) <= delay_before(repeats + 1, entry, restart, 0)
