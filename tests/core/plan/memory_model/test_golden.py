"""The golden test of the design: MiniMax-M2.5 on 8 GPUs of 97,887 MiB."""

from __future__ import annotations

from functools import cache

import pytest

from tests.core.plan.memory_model.models_read import SEED_GPU_BYTES, setup_of
from vllm_warden.core.model import GIB
from vllm_warden.core.plan.memory_model.layout import Layout
from vllm_warden.core.plan.memory_model.layouts import LayoutVerdict, all_layouts
from vllm_warden.core.plan.memory_model.verdict import Wall, plan_memory

SEED = {
    "tensor_parallel_size": 4,
    "max_model_len": 131_072,
    "gpu_memory_utilization": 0.95,
}


@cache
def verdicts() -> dict[Layout, LayoutVerdict]:
    return {one.layout: one for one in all_layouts(setup_of("minimax-m2.5", SEED), 8)}


def test_tp4_fits():
    verdict = verdicts()[Layout(4)]

    assert verdict.works
    assert verdict.weights_bytes == pytest.approx(53.7 * GIB, rel=0.01)


@pytest.mark.parametrize(
    ("layout", "gib"),
    [(Layout(8, expert_parallel=True), 27.0), (Layout(2, 1, 4, expert_parallel=True), 28.8)],
    ids=["TP8+EP", "TP2xDP4+EP"],
)
def test_these_are_valid_on_all_eight(layout, gib):
    assert verdicts()[layout].works
    assert verdicts()[layout].weights_bytes == pytest.approx(gib * GIB, rel=0.01)


def test_tp8_without_ep_cuts_the_blocks_of_the_experts():
    (reason,) = verdicts()[Layout(8)].refused

    assert "1536/8 = 192 is no multiple of 128" in reason
    assert "--enable-expert-parallel" in reason


def test_tp6_does_not_divide_the_kv_heads():
    assert verdicts()[Layout(6)].refused == ("8 KV heads do not divide by 6",)


def test_tp2_with_ep_has_more_weights_than_a_gpu_has_memory():
    verdict = verdicts()[Layout(2, expert_parallel=True)]

    assert not verdict.is_valid
    assert verdict.weights_bytes is not None
    assert verdict.weights_bytes / 1e9 == pytest.approx(115, abs=0.5)
    assert verdict.weights_bytes > SEED_GPU_BYTES
    wall = verdict.plan.worst.first_wall if verdict.plan else None
    assert wall is not None
    assert (wall.wall, wall.is_certain) == (Wall.WEIGHTS, True)


def test_the_settings_of_the_incident_are_called_narrow():
    """They died in the sampler warm-up, after the KV cache."""
    worst = plan_memory(setup_of("minimax-m2.5", SEED)).worst

    last = worst.checks[-1]
    assert (last.wall, last.is_certain) == (Wall.AFTER_CACHE, False)
    assert worst.rank.peak.name == "sampler peak"
