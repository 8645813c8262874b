"""The budget of the KV cache against what vLLM's own GPU worker code computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.core.plan.memory_model.models_read import setup_of
from vllm_warden.core.model import GIB
from vllm_warden.core.plan.memory_model.engine_options import EngineOptions
from vllm_warden.core.plan.memory_model.era import era_of
from vllm_warden.core.plan.memory_model.estimate import estimate_ranks
from vllm_warden.core.plan.memory_model.measured import Measured, measured_from_figures
from vllm_warden.core.plan.memory_model.model_shape import ModelShape
from vllm_warden.core.plan.memory_model.peak import sampler_peak
from vllm_warden.core.plan.memory_model.term import Source
from vllm_warden.core.plan.spec import EngineFacts

CASES: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("kv_budgets.json").read_text("utf-8")
)
"""Written by tests/engine/kv_budget.py, which runs ``Worker.determine_available_memory``."""


@pytest.mark.parametrize("version", CASES)
def test_the_cache_gets_what_the_workers_own_code_gives_it(version):
    """Terms as the worker saw them; what is judged is how they are put together."""
    assert len(CASES[version]) >= 20
    for case in CASES[version]:
        settings = {
            "gpu_memory_utilization": case["utilization"],
            "enforce_eager": not case["graphs_bytes"],
        }
        measured = Measured(
            weights_bytes=case["weights_bytes"],
            context_bytes=700 << 20,
            peak_bytes=case["peak_bytes"] + case["libraries_bytes"],
            graphs_bytes=case["graphs_bytes"],
        )
        setup = setup_of(
            "llama-3.1-8b",
            settings,
            version=version,
            gpu_bytes=case["total_bytes"],
            measured=measured,
        )

        (rank,) = estimate_ranks(setup)

        assert rank.kv.bytes == pytest.approx(case["kv_bytes"], abs=0.01 * GIB)


def test_what_an_attempt_printed_replaces_the_assumptions():
    settings = {"max_num_seqs": 256, "max_num_batched_tokens": 2048}
    figures = {"weights_bytes": 15 * GIB, "available_kv_bytes": 50 * GIB}

    measured = measured_from_figures(figures, 72 * GIB, 256, 2048)
    setup = setup_of("llama-3.1-8b", settings, gpu_bytes=80 * GIB, measured=measured)
    (rank,) = estimate_ranks(setup)

    assert (rank.weights.source, rank.peak.source) == (Source.MEASURED, Source.MEASURED)
    assert rank.kv.bytes == pytest.approx(50 * GIB, abs=2)


def peaks_of(measured: Measured, **settings: int) -> tuple[float, float]:
    """(activations, sampler) in GiB, on vLLM 0.15.1: 50 bytes x 128,256 is 6.12 GiB at 1024."""
    setup = setup_of("llama-3.1-8b", settings, measured=measured)
    (rank,) = estimate_ranks(setup)
    return rank.activations.bytes / GIB, rank.sampler.bytes / GIB


def test_a_peak_of_sampling_shrinks_with_the_sequences():
    measured = Measured(peak_bytes=6.4 * GIB, peak_seqs=1024, peak_tokens=8192)

    activations, sampler = peaks_of(measured, max_num_seqs=256, max_num_batched_tokens=8192)

    assert sampler == pytest.approx(1.6, abs=0.01)
    assert activations < 6.4


def test_a_peak_of_activations_shrinks_with_the_tokens():
    measured = Measured(peak_bytes=4.0 * GIB, peak_seqs=64, peak_tokens=8192)

    activations, sampler = peaks_of(measured, max_num_seqs=64, max_num_batched_tokens=2048)

    assert activations == pytest.approx(1.0, abs=0.01)
    assert sampler == pytest.approx(50 * 64 * 128_256 / GIB)


def test_activations_are_near_what_a_log_shows():
    """Corpus 112: 2.53 GiB, Llama-3.1-8B at TP 2, 40,000 tokens in one batch."""
    settings = {"tensor_parallel_size": 2, "max_num_batched_tokens": 40_000}

    (rank,) = estimate_ranks(setup_of("llama-3.1-8b", settings, version="0.9.2"))

    assert rank.activations.bytes == pytest.approx(2.53 * GIB, rel=0.05)


def test_sampling_on_a_cpu_takes_what_was_measured():
    """VLLM 0.32.0, 64 to 2048 requests, by tests/engine/sampler_peak.py."""
    measured = json.loads(Path(__file__).with_name("cpu_sampler_peaks.json").read_text("utf-8"))
    era = era_of(EngineFacts(version="0.32.0", is_cpu=True))
    shape = ModelShape(vocab=measured["vocabulary"])

    for one in measured["peaks"]:
        options = EngineOptions(max_num_seqs=one["rows"], max_num_batched_tokens=2048)
        peak = sampler_peak(shape, options, era)
        assert peak.bytes == pytest.approx(one["peak_bytes"], rel=0.1)
