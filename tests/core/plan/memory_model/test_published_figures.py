"""Weights against what engines printed and repositories hold; the figures were written first."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.core.plan.memory_model.models_read import model_of, setup_of
from vllm_warden.core.model import GIB, MIB
from vllm_warden.core.plan.memory_model.estimate import estimate_ranks
from vllm_warden.core.plan.memory_model.overhead import context

FIGURES = tomllib.loads(Path(__file__).with_name("published_figures.toml").read_text("utf-8"))
LIMIT_FRACTION = 0.015


def deviation_of(figure: dict[str, Any]) -> float:
    """Estimate over figure, less one."""
    names = ("tensor_parallel_size", "pipeline_parallel_size")
    settings = {name: figure[name] for name in names if name in figure}
    setup = setup_of(figure["model"], settings)
    ranks = estimate_ranks(setup)
    if "used_mib" in figure:
        estimate = ranks[0].weights.bytes + context(setup.options).bytes
        return float(estimate / (figure["used_mib"] * MIB) - 1)
    published = figure["weights_gib"] * GIB
    estimates = [rank.weights.bytes / published - 1 for rank in ranks]
    # which of the ranks printed it is not known
    return float(min(estimates, key=abs))


@pytest.mark.parametrize("figure", FIGURES["engine"], ids=lambda figure: figure["name"])
def test_weights_are_what_the_engine_showed(figure):
    assert abs(deviation_of(figure)) < LIMIT_FRACTION


@pytest.mark.parametrize("figure", FIGURES["checkpoint"], ids=lambda figure: figure["model"])
def test_the_made_directory_is_as_large_as_the_published_checkpoint(figure):
    checkpoint = model_of(figure["model"]).checkpoint
    if "parameters" in figure:
        assert checkpoint.total_bytes / 2 == pytest.approx(figure["parameters"], rel=0.0005)
    elif "total_gib" in figure:
        expected = figure["total_gib"] * GIB
        assert checkpoint.total_bytes == pytest.approx(expected, rel=figure["tolerance_fraction"])
        assert checkpoint.files == figure["shards"]
    else:
        assert checkpoint.total_bytes == pytest.approx(figure["total_bytes"], rel=0.0001)
