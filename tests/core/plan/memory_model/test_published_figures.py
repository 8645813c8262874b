"""Weights against what engines showed and repositories hold; the figures were written first."""

from __future__ import annotations

import pytest

from tests.core.plan.memory_model.error_table import PAGE, page_with_table
from tests.core.plan.memory_model.judged import (
    FIGURES,
    LOADED,
    deviation_of,
    loaded_estimate,
)
from tests.core.plan.memory_model.models_read import model_of
from tests.engine.loaded_weights import SHAPES
from vllm_warden.core.model import GIB

LIMIT_FRACTION = 0.015


@pytest.mark.parametrize("figure", FIGURES["engine"], ids=lambda figure: figure["name"])
def test_weights_are_what_the_engine_showed(figure):
    assert abs(deviation_of(figure)) < LIMIT_FRACTION


@pytest.mark.parametrize("name", SHAPES)
def test_weights_are_what_workers_of_real_vllm_held(name, tmp_path):
    for held in LOADED[name]["ranks_bytes"]:
        assert loaded_estimate(name, tmp_path) == pytest.approx(held, rel=LIMIT_FRACTION)


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


def test_the_page_shows_the_errors_as_they_are():
    """Rewrite it with python -m tests.core.plan.memory_model.error_table."""
    text = PAGE.read_text(encoding="utf-8")

    assert page_with_table(text) == text
