"""Models that nobody described well: what is certain is said, the rest is named as unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.plan.memory_model.models_read import model_of
from tests.model_directories.models import MINIMAX_M25, MODELS
from vllm_warden.core.model import GIB
from vllm_warden.core.plan.memory_model.checkpoint import (
    Checkpoint,
    Entry,
    WeightSource,
    group_tensors,
)
from vllm_warden.core.plan.memory_model.document import plan_document
from vllm_warden.core.plan.memory_model.engine_options import read_options
from vllm_warden.core.plan.memory_model.era import era_of
from vllm_warden.core.plan.memory_model.estimate import GpuMemory, Setup
from vllm_warden.core.plan.memory_model.layouts import all_layouts
from vllm_warden.core.plan.memory_model.limits import find_limits
from vllm_warden.core.plan.memory_model.measured import measured_from_figures
from vllm_warden.core.plan.memory_model.model import Model
from vllm_warden.core.plan.memory_model.read_shape import read_shape
from vllm_warden.core.plan.memory_model.roles import is_guess
from vllm_warden.core.plan.memory_model.term import Source
from vllm_warden.core.plan.memory_model.verdict import MemoryPlan, Wall, plan_memory
from vllm_warden.core.plan.spec import EngineFacts


def plan_of(
    config: dict[str, Any], checkpoint: Checkpoint, settings: dict[str, Any] | None = None
) -> MemoryPlan:
    shape, engine = read_shape(config), EngineFacts(version="0.15.1")
    options = read_options(settings or {}, shape, engine, 80 * GIB)
    return plan_memory(
        Setup(Model(shape, checkpoint), options, GpuMemory(80 * GIB), era_of(engine))
    )


def whole_answer(plan: MemoryPlan) -> dict[str, object]:
    return plan_document(plan, find_limits(plan), all_layouts(plan.setup, 4))


def test_without_a_config_the_weights_are_still_judged():
    plan = plan_of({}, Checkpoint(WeightSource.INDEX, 200 * GIB))

    assert plan.worst.first_wall is not None
    assert plan.worst.first_wall.wall is Wall.WEIGHTS
    assert plan.worst.rank.weights.source is Source.ASSUMED
    assert plan.worst.kv_tokens is None
    assert "config.json is missing" in plan.setup.model.shape.unknown[0]


def test_without_headers_the_total_is_spread_over_the_described_layers():
    config = dict(MINIMAX_M25)
    exact, spread = 53.74 * GIB, 230_121_630_720

    plan = plan_of(config, Checkpoint(WeightSource.INDEX, spread), {"tensor_parallel_size": 4})

    weights = plan.worst.rank.weights
    assert weights.bytes == pytest.approx(exact, rel=0.01)
    assert weights.source is Source.COMPUTED
    assert "total_size" in weights.note


def test_with_a_config_alone_the_quantised_size_is_computed():
    plan = plan_of(dict(MINIMAX_M25), Checkpoint(WeightSource.NOTHING), {"tensor_parallel_size": 4})

    weights = plan.worst.rank.weights
    assert weights.bytes == pytest.approx(53.74 * GIB, rel=0.015)
    assert weights.note.startswith("config.json alone")


NONSENSE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(MINIMAX_M25)), NONSENSE)
def test_any_value_of_any_key_gets_an_answer(key, value):
    config = {**MINIMAX_M25, key: value}

    answer = whole_answer(plan_of(config, Checkpoint(WeightSource.INDEX, 100 * GIB)))

    assert isinstance(answer["fits"], bool)


@given(
    st.dictionaries(
        st.sampled_from(
            (
                *("kv_lora_rank", "qk_rope_head_dim", "mamba_n_heads", "linear_num_value_heads"),
                *("linear_num_key_heads", "layer_types", "hybrid_override_pattern", "text_config"),
                *("attn_layer_indices", "n_shared_experts", "moe_layer_freq", "rope_parameters"),
            )
        ),
        NONSENSE,
    )
)
def test_any_key_of_other_families_gets_an_answer(extra):
    answer = whole_answer(
        plan_of({**MINIMAX_M25, **extra}, Checkpoint(WeightSource.INDEX, 100 * GIB))
    )

    assert isinstance(answer["fits"], bool)


def test_options_that_nobody_knows_change_nothing():
    checkpoint = Checkpoint(WeightSource.INDEX, 100 * GIB)

    known = whole_answer(plan_of(dict(MINIMAX_M25), checkpoint))
    with_more = plan_of(dict(MINIMAX_M25), checkpoint, {"brand_new": [1], "max_num_seqs": 1024})

    assert whole_answer(with_more)["stages"] == known["stages"]


def test_names_that_nobody_knows_are_in_doubt():
    groups = group_tensors({Entry("model.layers.0.odd.matrix", "BF16", (1 << 15, 1 << 15)): 1})
    checkpoint = Checkpoint(WeightSource.HEADERS, 2 << 30, groups, 1)

    plan = plan_of(dict(MINIMAX_M25), checkpoint, {"tensor_parallel_size": 4})

    weights = plan.worst.rank.weights
    assert weights.bytes > 2 * GIB
    assert weights.uncertainty_bytes > 1.5 * GIB
    assert "names partly unknown" in weights.note


@given(st.floats() | st.integers() | st.text(max_size=3))
def test_nonsense_figures_of_a_log_are_no_measurement(value):
    measured = measured_from_figures(
        {"weights_bytes": value, "available_kv_bytes": value, "graphs_bytes": value},
        72 * GIB,
        256,
        2048,
    )

    for found in (measured.weights_bytes, measured.graphs_bytes, measured.peak_bytes):
        assert found is None or 0 <= found < 1 << 51


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_name_of_the_published_models_is_known(name):
    assert [group.name for group in model_of(name).checkpoint.groups if is_guess(group.name)] == []
