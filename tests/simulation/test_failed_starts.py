"""Starts that fail: the log of the real program, its order, its exit status."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.simulation.conftest import Host

INCIDENT = ("--tensor-parallel-size", "4", "--max-model-len", "131072")
AT_95 = (*INCIDENT, "--gpu-memory-utilization", "0.95")


def fail(host: Host, *words: str, **environment: str) -> tuple[int, str]:
    engine = host.serve(*words, **environment)
    engine.tree()
    status = engine.process.wait(timeout=30)
    assert engine.gone()
    return status, engine.log


def in_order(log: str, *fragments: str) -> None:
    place = 0
    for fragment in fragments:
        found = log.find(fragment, place)
        assert found >= 0, f"{fragment!r} is missing, or too early"
        place = found


def test_the_incident_prints_every_phase_and_then_the_sampler_failure(host: Host) -> None:
    status, log = fail(host, *AT_95)
    assert status == 1
    in_order(
        log,
        "non-default args: {'model_tag'",
        "Initializing a V1 LLM engine (v0.15.1) with config:",
        "Starting to load model",
        "Loading safetensors checkpoint shards: 100% Completed | 125/125",
        "Model loading took 53.55 GiB memory and",
        "Available KV cache memory: 27.13 GiB",
        "GPU KV cache size: 458,848 tokens",
        "Graph capturing finished in",
        "WorkerProc hit an exception.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.29 GiB.",
        "The above exception was the direct cause of the following exception:",
        "in compile_or_warm_up_model",
        "in _dummy_sampler_run",
        "occurred when warming up sampler with 1024 dummy requests.",
        "EngineCore failed to start.",
        "Worker failed with error 'CUDA out of memory occurred when warming up sampler",
        "Process EngineCore_DP0:",
        "Engine core initialization failed. See root cause above.",
    )


def test_relaunched_unchanged_it_dies_again_in_the_same_way(host: Host) -> None:
    logs = [fail(host, *AT_95)[1] for _ in range(2)]
    tried = [re.findall(r"Tried to allocate ([\d.]+ GiB)", log)[0] for log in logs]
    free = [re.findall(r"of which ([\d.]+ GiB) is free", log)[0] for log in logs]
    assert (tried[0], free[0]) == (tried[1], free[1])


def test_the_numbers_of_the_failure_add_up(host: Host) -> None:
    log = fail(host, *AT_95)[1]
    sizes = r"capacity of ([\d.]+) GiB of which ([\d.]+) GiB is free.*this process has ([\d.]+) GiB"
    total, free, held = map(float, re.findall(sizes, log)[0])
    assert total == pytest.approx(free + held, abs=0.02)


def test_two_gpus_are_too_few_for_the_weights_and_the_advice_is_the_real_wrong_one(
    host: Host,
) -> None:
    words = ("--tensor-parallel-size", "2", "--enable-expert-parallel")
    status, log = fail(host, *words)
    assert status == 1
    in_order(
        log,
        "Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization",
        "WorkerProc failed to start.",
        "in load_model",
        "WorkerProc initialization failed due to an exception in a background process.",
    )
    assert "EP1" in log


def test_a_tiny_utilization_leaves_nothing_for_the_cache(host: Host) -> None:
    status, log = fail(host, *INCIDENT, "--gpu-memory-utilization", "0.5")
    assert status == 1
    in_order(
        log,
        "Available KV cache memory: -",
        "in _check_enough_kv_cache_memory",
        "ValueError: No available memory for the cache blocks.",
    )


def test_a_small_cache_names_the_length_that_would_fit(host: Host) -> None:
    _, log = fail(host, *INCIDENT, "--gpu-memory-utilization", "0.7")
    in_order(
        log,
        "the models's max seq len (131072), (7.75 GiB KV cache is needed",
        "maximum model length is 57296.",
    )


def test_memory_held_by_a_neighbour_is_refused_at_the_start(host: Host) -> None:
    (host.gpus / "gpu1/stuck").write_text(str(20 << 30))
    status, log = fail(host, *AT_95)
    assert status == 1
    assert "Free memory on device cuda:1 (73.66/94.97 GiB) on startup is less than" in log


def test_eight_way_tensor_parallelism_does_not_divide_the_blocks(host: Host) -> None:
    _, log = fail(host, "--tensor-parallel-size", "8", CUDA_VISIBLE_DEVICES="0,1,2,3,4,5,6,7")
    assert "up's weight = 192 is not divisible by weight quantization block_n = 128." in log


def test_more_ranks_than_gpus_are_refused_before_anything_starts(host: Host) -> None:
    status, log = fail(host, "--tensor-parallel-size", "8")
    assert status == 1
    assert "World size (8) is larger than the number of available GPUs (4)" in log


def test_one_gpu_has_no_worker_process_and_fails_in_the_engine_core(host: Host) -> None:
    status, log = fail(host, "--gpu-memory-utilization", "0.9")
    assert status == 1
    assert "WorkerProc" not in log
    in_order(log, "(EngineCore_DP0 pid=", "EngineCore failed to start.", "in load_model")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kv-cache-size", "1"), "vllm: error: unrecognized arguments: --kv-cache-size 1"),
        (
            ("--max-num-seqs", "many"),
            "vllm serve: error: argument --max-num-seqs: invalid int value: 'many'",
        ),
    ],
)
def test_a_wrong_command_line_is_refused_as_argparse_does(
    host: Host, words: tuple[str, ...], message: str
) -> None:
    status, log = fail(host, *words)
    assert status == 2
    assert log.startswith("usage: vllm")
    assert log.endswith(message + "\n")


def test_a_setting_out_of_range_is_a_validation_error(host: Host) -> None:
    status, log = fail(host, "--gpu-memory-utilization", "1.5")
    assert status == 1
    assert "1 validation error for CacheConfig\n" in re.sub(r"\(APIServer pid=\d+\) ", "", log)


def test_a_taken_port_is_noticed_before_anything_starts(host: Host) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, log = fail(host, "--port", str(taken.getsockname()[1]))
    assert status == 1
    assert log.endswith("OSError: [Errno 98] Address already in use\n")
    assert "EngineCore" not in log


def test_a_missing_model_folder_is_named(host: Host, tmp_path: Path) -> None:
    engine = host.serve(model=str(tmp_path / "absent"))
    assert engine.process.wait(timeout=30) == 1
    assert "HFValidationError: Repo id must be in the form 'repo_name'" in engine.log


def test_the_log_is_coloured_unless_told_otherwise(host: Host) -> None:
    _, log = fail(host, "--gpu-memory-utilization", "1.5", NO_COLOR="")
    assert "\x1b[0;36m(APIServer pid=" in log
