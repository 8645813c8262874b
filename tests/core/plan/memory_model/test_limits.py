"""The largest settings that hold: one more does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.plan.memory_model.models_read import setup_of
from vllm_warden.core.model import GIB
from vllm_warden.core.plan.memory_model.estimate import Setup
from vllm_warden.core.plan.memory_model.limits import find_limits
from vllm_warden.core.plan.memory_model.measured import Measured
from vllm_warden.core.plan.memory_model.verdict import Wall, plan_memory

SETTINGS = {"max_model_len": 32_768, "gpu_memory_utilization": 0.9, "max_num_seqs": 256}


def changed(setup: Setup, **options: float) -> Setup:
    return replace(setup, options=replace(setup.options, **options))  # type: ignore[arg-type]


@pytest.fixture
def setup() -> Setup:
    return setup_of("llama-3.1-8b", SETTINGS, gpu_bytes=24 * GIB)


def test_the_safe_utilization_leaves_room_for_what_is_not_budgeted(setup):
    """By hand: 24 GiB - context 0.508 - graphs - margin - doubt, over 24 GiB."""
    plan = plan_memory(setup)
    rank = plan.worst.rank
    graphs = (200 << 20) + 650_000 * 51 * 32
    margin = 0.3 * GIB + 0.04 * rank.peak.bytes + 0.4 * GIB
    doubt = ((150 << 20) ** 2 + (0.6 * graphs) ** 2) ** 0.5

    limits = find_limits(plan)

    expected = (24 * GIB - (520 << 20) - graphs - margin - doubt) / (24 * GIB)
    assert limits.utilization == pytest.approx(expected, abs=0.0001)
    certain = [
        plan_memory(changed(setup, utilization=(limits.utilization or 0.0) + step))
        .worst.checks[-1]
        .is_certain
        for step in (0.0, 0.0002)
    ]
    assert certain == [True, False]


def test_one_token_more_does_not_fit(setup):
    limits = find_limits(plan_memory(setup))
    assert limits.utilization is not None
    assert limits.max_model_len is not None
    at = changed(setup, utilization=limits.utilization, max_model_len=limits.max_model_len)
    above = changed(at, max_model_len=limits.max_model_len + 1)

    wall = plan_memory(above).worst.first_wall

    assert plan_memory(at).fits
    assert wall is not None
    assert wall.wall is Wall.SHORT_CACHE


def test_one_sequence_more_does_not_fit(setup):
    limits = find_limits(plan_memory(setup))
    assert limits.utilization is not None
    assert limits.max_num_seqs is not None
    at = changed(setup, utilization=limits.utilization, max_num_seqs=limits.max_num_seqs)

    assert plan_memory(at).fits
    assert not plan_memory(changed(at, max_num_seqs=limits.max_num_seqs + 1)).fits


def test_measured_terms_allow_more(setup):
    seen = Measured(context_bytes=0.5 * GIB, graphs_bytes=0.6 * GIB, peak_bytes=2.0 * GIB)

    guessed = find_limits(plan_memory(setup)).utilization
    measured = find_limits(plan_memory(replace(setup, measured=seen))).utilization

    assert guessed is not None
    assert measured is not None
    assert measured > guessed


def test_graphs_are_in_the_budget_since_0_20():
    old, new = (
        plan_memory(setup_of("llama-3.1-8b", SETTINGS, version=version)).worst.rank
        for version in ("0.19.1", "0.20.2")
    )

    assert old.graphs_budgeted.bytes == 0
    assert new.graphs_budgeted.bytes == new.graphs.bytes
    assert old.kv.bytes - new.kv.bytes == pytest.approx(
        new.graphs.bytes + new.peak.bytes - old.peak.bytes, abs=2
    )
