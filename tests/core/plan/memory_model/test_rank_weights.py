"""What a rank holds of a checkpoint, tensor by tensor, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.core.plan.memory_model.models_read import model_of, setup_of
from vllm_warden.core.plan.memory_model.checkpoint import Entry, TensorGroup, group_tensors
from vllm_warden.core.plan.memory_model.estimate import estimate_ranks
from vllm_warden.core.plan.memory_model.layout import Layout, stage_layers
from vllm_warden.core.plan.memory_model.load_extras import latent_copies, mxfp4_padding
from vllm_warden.core.plan.memory_model.model_shape import ModelShape
from vllm_warden.core.plan.memory_model.rank_weights import Load, stage_weights
from vllm_warden.core.plan.memory_model.roles import Role, role_of

SHAPE = ModelShape(hidden=64, layers=4, heads=8, kv_heads=2, head_dim=8, vocab=100)


def held(name: str, *shape: int, dtype: str = "BF16", load: Load | None = None) -> list[int]:
    """Bytes of one tensor in each stage."""
    groups = group_tensors({Entry(name, dtype, shape): 1})
    return [stage.bytes for stage in stage_weights(groups, SHAPE, load or Load(Layout(4)))]


@pytest.mark.parametrize(
    ("name", "rows", "expected"),
    [
        ("model.layers.1.self_attn.q_proj.weight", 64, 64 * 64 * 2 // 4),
        ("model.layers.1.self_attn.k_proj.weight", 16, 16 * 64 * 2 // 2),
        ("model.layers.1.self_attn.k_proj.bias", 16, 16 * 64 * 2 // 2),
        ("model.layers.1.self_attn.o_proj.weight", 64, 64 * 64 * 2 // 4),
        ("model.layers.1.self_attn.o_proj.bias", 64, 64 * 64 * 2),
        ("model.layers.1.self_attn.k_norm.weight", 8, 8 * 64 * 2),
        ("model.layers.1.self_attn.q_a_proj.weight", 8, 8 * 64 * 2),
        ("model.layers.1.mlp.gate.weight", 8, 8 * 64 * 2),
        ("model.layers.1.mlp.down_proj.weight", 64, 64 * 64 * 2 // 4),
        ("model.embed_tokens.weight", 100, 128 * 64 * 2 // 4),
        ("lm_head.weight", 100, 128 * 64 * 2 // 4),
        ("model.norm.weight", 1, 64 * 2),
        ("model.layers.1.self_attn.rotary_emb.inv_freq", 1, 0),
        ("model.layers.4.self_attn.q_proj.weight", 64, 0),
        ("model.mtp.layers.0.q_proj.weight", 64, 0),
    ],
)
def test_a_tensor_is_dealt_out_by_its_name(name, rows, expected):
    assert held(name, rows, 64) == [expected]


def test_a_tied_output_is_not_stored_again():
    """Some checkpoints have it all the same."""
    groups = group_tensors({Entry("lm_head.weight", "BF16", (100, 64)): 1})

    (stage,) = stage_weights(groups, replace(SHAPE, tied_embeddings=True), Load(Layout(1)))

    assert stage.bytes == 0


def test_layers_behind_the_last_one_are_loaded_for_speculative_decoding():
    load = Load(Layout(4), with_drafts=True)

    assert held("model.layers.4.self_attn.q_proj.weight", 64, 64, load=load) == [2048]


def test_wide_floats_are_cast_and_scales_are_not():
    name = "model.layers.0.mlp.up_proj"

    assert held(f"{name}.weight", 64, 64, dtype="F32") == [64 * 64 * 2 // 4]
    assert held(f"{name}.weight_scale", 64, 64, dtype="F32") == [64 * 64 * 4 // 4]


def test_quantising_at_load_shrinks_linear_layers_only():
    load = Load(Layout(1), quantization="fp8")

    assert held("model.layers.0.mlp.up_proj.weight", 64, 64, load=load) == [64 * 64]
    assert held("model.embed_tokens.weight", 128, 64, load=load) == [128 * 64 * 2]


def test_stages_get_their_layers_and_the_ends_theirs():
    load = Load(Layout(1, 2))

    assert held("model.layers.3.mlp.up_proj.weight", 8, 8, load=load) == [0, 128]
    assert held("model.embed_tokens.weight", 128, 8, load=load) == [2048, 0]
    assert held("lm_head.weight", 128, 8, load=load) == [0, 2048]
    assert held("model.norm.weight", 8, load=load) == [0, 16]


@pytest.mark.parametrize(
    ("layers", "stages", "counts"),
    [(61, 4, [15, 15, 16, 15]), (62, 4, [15, 16, 16, 15]), (5, 3, [2, 2, 1]), (4, 4, [1] * 4)],
)
def test_the_remainder_of_layers_goes_before_the_last_stage(layers, stages, counts):
    """get_pp_indices of vLLM: from the second last stage backwards."""
    found = stage_layers(layers, stages)

    assert [len(stage) for stage in found] == counts
    assert [layer for stage in found for layer in stage] == list(range(layers))


def test_experts_are_cut_or_dealt_out_whole():
    shape = model_of("qwen3-30b-a3b").shape
    expert = TensorGroup("model.layers.#.mlp.experts.#.up_proj.weight", "BF16", (768, 8), 100, 128)
    group = TensorGroup(expert.name, "BF16", expert.shape, 100, 128, layers=(0,))

    def dealt(layout: Layout) -> int:
        return stage_weights((group,), shape, Load(layout))[0].bytes

    assert dealt(Layout(2, 1, 2)) == 128 * 100 // 4
    assert dealt(Layout(2, 1, 2, expert_parallel=True)) == 32 * 100
    assert dealt(Layout(3, expert_parallel=True)) == 43 * 100


def test_latent_attention_keeps_its_projection_twice():
    term = latent_copies(model_of("deepseek-v3").shape, Layout(8), range(15))

    assert term is not None
    assert term.bytes == 16 * (128 + 128) * 512 * 2 * 15


def test_mxfp4_experts_are_padded():
    """2880 x 2880 grows to 3072 x 2944; cut in two, 1440 grows to 1536."""
    model = model_of("gpt-oss-120b")
    experts = sum(g.total_bytes for g in model.checkpoint.groups if ".experts." in g.name)

    def padding(layout: Layout) -> float:
        term = mxfp4_padding(model.checkpoint.groups, model.shape, layout, range(36))
        assert term is not None
        return term.bytes

    assert padding(Layout(1)) == pytest.approx(experts * (3072 * 2944 / 2880**2 - 1), rel=1e-6)
    cut = experts / 2 * (3072 * 1536 / (2880 * 1440) - 1)
    assert padding(Layout(2)) == pytest.approx(cut, rel=1e-6)


def test_offloaded_weights_are_taken_off():
    plain: dict[str, Any] = {"max_model_len": 4096}
    (before,) = estimate_ranks(setup_of("llama-3.1-8b", plain))
    (after,) = estimate_ranks(setup_of("llama-3.1-8b", {**plain, "cpu_offload_gb": 4}))

    assert before.weights.bytes - after.weights.bytes == 4 << 30


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("language_model.model.layers.#.mlp.gate_proj.weight", Role.SPLIT),
        ("transformer.h.#.attn.c_attn.weight", Role.SPLIT),
        ("transformer.wte.weight", Role.EMBEDDING),
        ("model.layers.#.block_sparse_moe.experts.#.w1.weight", Role.EXPERT),
        ("model.layers.#.mlp.shared_experts.up_proj.weight", Role.SPLIT),
        ("model.layers.#.mamba.in_proj.weight", Role.STATE_SPACE),
        ("model.layers.#.self_attn.q_proj.g_idx", Role.REPLICATED),
        ("vision_model.encoder.layers.#.mlp.fc1.weight", Role.SPLIT),
        ("something.nobody.knows", Role.REPLICATED),
    ],
)
def test_names_of_other_families_are_understood(name, role):
    assert role_of(name) is role
