"""Bytes of keys and values, against figures that engines printed and hand arithmetic."""

from __future__ import annotations

import pytest

from tests.core.plan.memory_model.models_read import model_of, setup_of
from vllm_warden.core.model import GIB
from vllm_warden.core.plan.memory_model.kv_cache import KvNeeds, kv_needs


def needs_of(name: str, **settings: object) -> KvNeeds:
    setup = setup_of(name, settings)  # type: ignore[arg-type]
    found = kv_needs(model_of(name).shape, setup.options, range(model_of(name).shape.layers))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "settings", "per_token"),
    [
        ("llama-2-7b", {}, 512 << 10),
        ("llama-3.1-8b", {"tensor_parallel_size": 2}, 64 << 10),
        ("qwen3-30b-a3b-nvfp4", {"kv_cache_dtype": "fp8"}, 48 << 10),
        ("minimax-m2.5", {"tensor_parallel_size": 4}, 62 * 2 * 2 * 128 * 2),
        ("minimax-m2.5", {"tensor_parallel_size": 16}, 62 * 2 * 1 * 128 * 2),
        ("deepseek-v3", {"tensor_parallel_size": 8}, 61 * 576 * 2),
        ("llama-3.2-11b-vision", {}, 32 * 2 * 8 * 128 * 2),
    ],
)
def test_one_token_costs_what_the_logs_show(name, settings, per_token):
    """The first three are printed sizes of caches over printed numbers of tokens."""
    assert needs_of(name, **settings).bytes_per_token == per_token


def test_a_plain_cache_holds_what_the_log_of_llama_2_printed():
    """Corpus 111: 56.18 GiB, 7191 blocks."""
    assert needs_of("llama-2-7b").blocks(int(56.18 * GIB)) == 7191


def test_a_window_stops_growing():
    needs = needs_of("gpt-oss-120b", max_num_batched_tokens=2048)

    assert needs.request_blocks(100) == 7 + 8
    assert needs.request_blocks(131_072) == 8192 + (-(-(127 + 2048) // 16) + 1)


def test_states_are_paged_like_attention():
    """Bamba-9B: 29 states in 10 groups of 3, one block each, beside 3 layers of attention."""
    needs = needs_of("bamba-9b")

    state = 3 * 8448 * 2 + 128 * 64 * 128 * 2
    page = needs.block_tokens * 2 * 8 * 128 * 2
    assert needs.block_tokens == 16 * -(-state // (16 * 4096)) == 528
    assert needs.block_bytes == 3 * page
    assert needs.request_blocks(528) == 10 + 1


def test_the_longest_request_is_found_exactly():
    needs = needs_of("gpt-oss-120b")
    blocks = needs.request_blocks(50_000)

    longest = needs.longest(blocks * needs.block_bytes, 1 << 20)

    assert needs.request_blocks(longest) == blocks
    assert needs.request_blocks(longest + 1) > blocks
