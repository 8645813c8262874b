"""Every failure of memory in the words of three releases: each is diagnosed as the same."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.simulation.conftest import Engine, Host
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.simulation import physics
from vllm_warden.simulation.era import ENVIRONMENT, ERAS
from vllm_warden.simulation.host import Gpu
from vllm_warden.simulation.models import read_shape
from vllm_warden.simulation.physics import Knobs, Memory

MIB, GIB = 1 << 20, 1 << 30
TP4 = ("--tensor-parallel-size", "4", "--max-model-len", "4096")
RUNNER_V2 = "0.32.0"


@dataclass(frozen=True)
class Case:
    """A way to die: arguments, what is prepared, and the verdict that is due."""

    words: Callable[[Host], tuple[str, ...]]
    failure: str
    phase: str
    site: str | None
    figures: tuple[str, ...]
    prepare: Callable[[Host], object] = lambda _: None
    not_in: tuple[str, ...] = ()


def given(*words: str) -> Callable[[Host], tuple[str, ...]]:
    return lambda _: (*TP4, *words)


def cache_leaving(left_bytes: int) -> Callable[[Host], tuple[str, ...]]:
    """A KV cache of a fixed size that leaves so much of what is free behind the weights."""

    def words(host: Host) -> tuple[str, ...]:
        shape, knobs = read_shape(host.model), Knobs(4096, tensor_parallel=4)
        total = Gpu(host.gpus / "gpu0").total_bytes
        *_, loaded = physics.load(physics.init_device(Memory(total), knobs), shape, knobs)
        size = loaded.free_bytes - left_bytes
        return (*TP4, "--kv-cache-memory-bytes", str(size), "--max-num-seqs", "256")

    return words


TORCH = ("tried_bytes", "total_bytes", "free_bytes", "process_bytes", "allocated_bytes", "gpu")
CASES = {
    "memory taken by a neighbour": Case(
        given("--gpu-memory-utilization", "0.95"),
        "gpu_memory_taken",
        "init_device",
        None,
        ("free_bytes", "total_bytes", "requested_bytes", "utilization"),
        prepare=lambda host: (host.gpus / "gpu0/stuck").write_text(str(20 << 30)),
    ),
    "weights": Case(
        lambda _: ("--tensor-parallel-size", "2", "--enable-expert-parallel"),
        "gpu_out_of_memory",
        "load",
        "weights",
        TORCH,
    ),
    "profile, forward": Case(
        given("--max-num-batched-tokens", "131072"),
        "gpu_out_of_memory",
        "profile",
        "activations",
        TORCH,
    ),
    "profile, sampler": Case(
        given("--max-num-seqs", "6000"),
        "gpu_out_of_memory",
        "profile",
        "sampler",
        TORCH,
    ),
    "no cache blocks": Case(
        given("--gpu-memory-utilization", "0.5"),
        "kv_cache_too_small",
        "kv_plan",
        "kv_cache",
        ("available_bytes",),
    ),
    "cache too small for one request": Case(
        lambda _: (*TP4[:3], "131072", "--gpu-memory-utilization", "0.7"),
        "kv_cache_too_small",
        "kv_plan",
        "kv_cache",
        ("max_model_len", "needed_bytes", "available_bytes", "estimated_max_model_len"),
    ),
    "cache": Case(cache_leaving(-GIB), "gpu_out_of_memory", "kv_alloc", "kv_cache", TORCH),
    "kernels": Case(
        cache_leaving(200 * MIB),
        "gpu_out_of_memory",
        "kernels",
        "kernels",
        TORCH,
        not_in=("0.9.2",),
    ),
    "graphs": Case(
        cache_leaving(1500 * MIB),
        "gpu_out_of_memory",
        "cudagraph",
        "cuda_graphs",
        TORCH,
        not_in=(RUNNER_V2,),
    ),
    "graphs, behind a sampler that fits": Case(
        lambda host: (*cache_leaving(790 * MIB)(host)[:-1], "16"),
        "gpu_out_of_memory",
        "cudagraph",
        "cuda_graphs",
        TORCH,
        not_in=("0.9.2", "0.15.1"),
    ),
    "warm-up, sampler": Case(
        cache_leaving(4400 * MIB),
        "gpu_out_of_memory",
        "warmup",
        "sampler",
        (*TORCH, "dummy_requests"),
        not_in=(RUNNER_V2,),
    ),
    "warm-up, sampler ahead of the graphs": Case(
        cache_leaving(2000 * MIB),
        "gpu_out_of_memory",
        "warmup",
        "sampler",
        TORCH,
        not_in=("0.9.2", "0.15.1"),
    ),
    "warm-up, logits": Case(
        cache_leaving(3440 * MIB),
        "gpu_out_of_memory",
        "warmup",
        "sampler",
        TORCH,
        not_in=("0.9.2", RUNNER_V2),
    ),
}
RUNS = [(era, name) for name, case in CASES.items() for era in ERAS if era not in case.not_in]


def diagnosed(engine: Engine) -> Diagnosis:
    lines = engine.log.split("\n")
    return diagnose(Evidence(tuple(LogRecord(at, line) for at, line in enumerate(lines, 1))))


@pytest.mark.parametrize(("era", "name"), RUNS)
def test_a_death_has_the_same_name_in_the_words_of_each_release(
    host: Host, era: str, name: str
) -> None:
    case = CASES[name]
    case.prepare(host)
    engine = host.serve(*case.words(host), **{ENVIRONMENT: era})
    engine.tree()
    assert engine.process.wait(timeout=30) == 1
    found = diagnosed(engine)
    assert (found.failure, found.phase, found.site) == (case.failure, case.phase, case.site)
    assert found.engine_version == era
    assert set(case.figures) <= set(found.figures)


@pytest.mark.parametrize("era", ERAS)
def test_the_sampler_failure_in_profiling_says_how_many_requests_where_vllm_does(
    host: Host, era: str
) -> None:
    engine = host.serve(*CASES["profile, sampler"].words(host), **{ENVIRONMENT: era})
    engine.tree()
    assert engine.process.wait(timeout=30) == 1
    said = diagnosed(engine).figures.get("dummy_requests")
    assert said == (None if era == RUNNER_V2 else 6000)


@pytest.mark.parametrize("era", ERAS)
def test_a_full_batch_that_does_not_fit_is_a_failure_of_serving(host: Host, era: str) -> None:
    words = (*TP4[:3], "131072", "--gpu-memory-utilization", "0.955", "--max-num-seqs", "256")
    engine = host.serve(*words, **{ENVIRONMENT: era})
    engine.wait_ready()
    engine.tree()
    prompt = json.dumps({"prompt": "word " * 40_000, "max_tokens": 2}).encode()
    assert engine.get("/v1/completions", prompt)[0] == 500
    assert engine.process.wait(timeout=20) == 0
    found = diagnosed(engine)
    assert (found.failure, found.phase, found.site) == (
        "gpu_out_of_memory",
        "serving",
        "activations",
    )
    assert set(TORCH) <= set(found.figures)


@pytest.mark.parametrize("era", ERAS)
def test_a_killed_worker_is_a_kill_and_names_the_rank(host: Host, era: str) -> None:
    engine = host.serve(*TP4, "--max-num-seqs", "256", **{ENVIRONMENT: era})
    engine.wait_ready()
    os.kill(engine.tree()["VLLM::Worker_TP2"], signal.SIGKILL)
    assert engine.process.wait(timeout=20) == 0
    found = diagnosed(engine)
    assert (found.failure, found.phase, found.ranks) == ("killed_by_signal", "serving", (2,))


def test_an_era_that_the_stand_in_does_not_know_is_refused(host: Host) -> None:
    engine = host.serve(*TP4, **{ENVIRONMENT: "0.1.0"})
    assert engine.process.wait(timeout=20) == 1
    assert f"{ENVIRONMENT}=0.1.0: the stand-in engine knows 0.9.2, 0.15.1, 0.32.0" in engine.log
