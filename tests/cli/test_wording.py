from __future__ import annotations

import pytest

from vllm_warden.cli.wording import failure_in_words


@pytest.mark.parametrize(
    ("phase", "site", "words"),
    [
        ("kv_plan", "kv_cache", "while planning the KV cache"),
        ("cudagraph", "cuda_graphs", "while capturing CUDA graphs"),
        ("load", "weights", "while loading weights"),
        ("load", "lora", "while loading weights, for LoRA adapters"),
        ("profile", "cuda_graphs", "while measuring memory, for CUDA graphs"),
        (None, "kv_cache", "for the KV cache"),
    ],
)
def test_a_place_is_said_once(phase: str | None, site: str, words: str) -> None:
    assert failure_in_words("gpu_out_of_memory", phase, site).endswith(words)
