"""CUDA's own words in real vLLM's frames, lines and processes: what ``diagnose`` makes of them.

The first half raises inside the CPU worker (oomsim); the second runs the GPU worker's own code on
CPU tensors (gpufaults), past the KV cache. Only the last call is not vLLM's.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.forked_engine import Ended, ForkedEngine
from tests.wardens import complete, free_port, living

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

MIB, GIB = 2**20, 2**30
ASKED = ["--max-num-seqs", "256", "--max-num-batched-tokens", "512"]
EAGER = [*ASKED, "--enforce-eager"]
# The CPU worker profiles only what it may compile; TORCHDYNAMO_DISABLE keeps it from doing so.
PROFILED = [*ASKED, "--compilation-config", '{"mode": 1}']
SIMULATED = {
    "gpu": 0,
    "total_bytes": round(79.19 * GIB),
    "free_bytes": round(1.06 * GIB),
    "process_bytes": round(78.12 * GIB),
    "allocated_bytes": round(76.20 * GIB),
    "reserved_unallocated_bytes": round(412.51 * MIB),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedEngine]:
    with ForkedEngine(tmp_path_factory.mktemp("v")) as started:
        yield started


@pytest.fixture
def model(models: Path) -> str:
    return str(models / "tiny")


def diagnosed(ended: Ended) -> dict[str, Any]:
    program = Path(sys.executable).with_name("vllm-warden")
    done = subprocess.run(
        [program, "diagnose", "--json", ended.log], capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def verdict(answer: dict[str, Any]) -> tuple[str, str | None, str | None, str]:
    return answer["failure"], answer["phase"], answer["site"], answer["confidence"]


def proof(answer: dict[str, Any]) -> str:
    return "\n".join(line["text"] for line in answer["evidence"])


def simulated(engine: ForkedEngine, model: str, where: str, arguments: list[str]) -> Ended:
    ended = engine.run(
        [model, "--port", str(free_port()), *arguments], environment={"OOMSIM_AT": where}
    )
    assert ended.exit_status == 1
    return ended


@pytest.mark.parametrize(
    ("where", "arguments", "phase", "site", "tried_bytes"),
    [
        ("load", EAGER, "load", "weights", 2 * GIB),
        ("profile", PROFILED, "profile", "activations", 4 * GIB),
        ("kv", EAGER, "kv_alloc", "kv_cache", 8 * GIB),
    ],
)
def test_out_of_memory_before_serving_is_placed_by_its_frames(
    *,
    engine: ForkedEngine,
    model: str,
    where: str,
    arguments: list[str],
    phase: str,
    site: str,
    tried_bytes: int,
) -> None:
    answer = diagnosed(simulated(engine, model, where, arguments))

    assert verdict(answer) == ("gpu_out_of_memory", phase, site, "certain")
    assert {**SIMULATED, "tried_bytes": tried_bytes}.items() <= answer["figures"].items()
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried" in proof(answer)
    assert answer["engine_version"] == "0.32.0"


def test_vllms_own_words_about_the_sampler_are_placed_in_profiling(
    engine: ForkedEngine, model: str
) -> None:
    answer = diagnosed(simulated(engine, model, "sampler", PROFILED))

    assert verdict(answer) == ("gpu_out_of_memory", "profile", "sampler", "certain")
    vocabulary = json.loads(Path(model, "config.json").read_text())["vocab_size"]
    tried_bytes = 256 * vocabulary * 4
    expected = {**SIMULATED, "dummy_requests": 256, "tried_bytes": tried_bytes}
    assert expected.items() <= answer["figures"].items()
    assert "warming up sampler with 256 dummy requests" in proof(answer)


def test_an_error_of_nccl_while_devices_start_is_a_failure_of_communication(
    engine: ForkedEngine, model: str
) -> None:
    answer = diagnosed(simulated(engine, model, "nccl", EAGER))

    assert verdict(answer) == ("communication_failure", "init_device", None, "certain")
    assert "NCCL error in" in proof(answer)


def test_out_of_memory_in_a_step_is_told_from_start_up_and_exits_zero(
    engine: ForkedEngine, model: str
) -> None:
    port = free_port()

    def ask(pid: int) -> None:
        until_healthy(port, pid)
        with contextlib.suppress(OSError):  # the engine dies of it
            complete(port, model)

    ended = engine.run(
        [model, "--port", str(port), *EAGER],
        environment={"OOMSIM_AT": "runtime", "OOMSIM_AFTER": "2"},
        meanwhile=ask,
    )

    answer = diagnosed(ended)
    assert verdict(answer) == ("gpu_out_of_memory", "serving", "activations", "certain")
    assert {**SIMULATED, "tried_bytes": 1 * GIB}.items() <= answer["figures"].items()
    assert ended.exit_status == 0


def until_healthy(port: int, pid: int) -> None:
    while living([pid]):
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5),
        ):
            return
        time.sleep(0.1)


# A GPU of 24 GiB: 0.9 of it less 20.4 GiB weights, 96 MiB context and a peak of 1 GiB leaves
# 0.11 GiB for the KV cache, as vLLM's own planning prints.
GPU = {
    "total": 24 * GIB,
    "used": GIB // 2,
    "weights": int(20.4 * GIB),
    "peak": 1 * GIB,
    "graphs": 300 * MIB,
}
PLANNED = {"weights_bytes": round(20.4 * GIB), "available_kv_bytes": round(0.11 * GIB)}
FORWARD = ["torch.nn.functional.silu", "torch.nn.functional.linear"]
SAMPLER = ["torch.Tensor.sort", "torch.Tensor.softmax", "torch.Tensor.argmax"]
TEXT = (
    "CUDA out of memory. Tried to allocate 120.00 MiB. GPU 0 has a total capacity of 24.00 GiB of "
    "which 41.25 MiB is free. Including non-PyTorch memory, this process has 23.95 GiB memory in "
    "use. Of the allocated memory 22.50 GiB is allocated by PyTorch, with 310.00 MiB allocated in "
    "private pools (e.g., CUDA Graphs), and 640.75 MiB is reserved by PyTorch but unallocated. If "
    "reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)
PRINTED = {
    "gpu": 0,
    "tried_bytes": 120 * MIB,
    "total_bytes": 24 * GIB,
    "free_bytes": round(41.25 * MIB),
    "process_bytes": round(23.95 * GIB),
    "allocated_bytes": round(22.50 * GIB),
    "private_pools_bytes": 310 * MIB,
    "reserved_unallocated_bytes": round(640.75 * MIB),
}
UTILIZATION = ["--gpu-memory-utilization", "0.9"]
GRAPHS = [*ASKED, *UTILIZATION, "--compilation-config", '{"mode": 0}']


def after_the_cache(
    engine: ForkedEngine, model: str, arguments: list[str], fault: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    """The diagnosis of a death after the KV cache was made, and the log."""
    ended = engine.run(
        [model, "--port", str(free_port()), *arguments],
        fault={"gpu": GPU, "text": TEXT, **fault},
    )
    log = ended.log.read_text("utf-8")
    made, died = log.index("Available KV cache memory: 0.11 GiB"), log.index("Tried to allocate")
    assert made < died
    assert ended.exit_status == 1
    return diagnosed(ended), log


def test_out_of_memory_while_graphs_are_captured_is_told_from_the_forward_pass_it_runs(
    engine: ForkedEngine, model: str
) -> None:
    fault = {"graphs": True, "hooks": FORWARD, "below": ["capture_model"], "after": 2}
    answer, log = after_the_cache(engine, model, GRAPHS, fault)

    assert "Capturing CUDA graphs" in log
    assert verdict(answer) == ("gpu_out_of_memory", "cudagraph", "cuda_graphs", "certain")
    assert {**PRINTED, **PLANNED}.items() <= answer["figures"].items()


def test_out_of_memory_while_kernels_warm_up_is_placed_there(
    engine: ForkedEngine, model: str
) -> None:
    hook = "vllm.model_executor.warmup.kernel_warmup.qwen_triton_warmup"
    fault = {"hooks": [hook], "below": ["compile_or_warm_up_model", "kernel_warmup"]}
    answer, _ = after_the_cache(engine, model, [*EAGER, *UTILIZATION], fault)

    assert verdict(answer) == ("gpu_out_of_memory", "kernels", "kernels", "certain")
    assert {**PRINTED, **PLANNED}.items() <= answer["figures"].items()


def test_the_sampler_after_the_cache_is_told_from_the_sampler_in_profiling(
    engine: ForkedEngine, model: str
) -> None:
    fault = {"hooks": SAMPLER, "below": ["compile_or_warm_up_model", "_dummy_sampler_run"]}
    answer, _ = after_the_cache(engine, model, [*EAGER, *UTILIZATION], fault)

    assert verdict(answer) == ("gpu_out_of_memory", "warmup", "sampler", "certain")
    expected = {**PRINTED, **PLANNED, "dummy_requests": 256}
    assert expected.items() <= answer["figures"].items()
    # what else moves is chosen jointly with it; the room itself only comes from the utilization
    changed = {one["setting"]: one["to"] for one in answer["advice"]["changes"]}
    assert changed["gpu_memory_utilization"] < 0.9


def test_the_forward_pass_after_the_cache_is_placed_in_warm_up(
    engine: ForkedEngine, model: str
) -> None:
    fault = {
        "hooks": FORWARD,
        "below": ["compile_or_warm_up_model"],
        "outside": ["_dummy_sampler_run", "capture_model", "kernel_warmup"],
    }
    answer, _ = after_the_cache(engine, model, [*EAGER, *UTILIZATION], fault)

    assert verdict(answer) == ("gpu_out_of_memory", "warmup", "activations", "certain")
    assert {**PRINTED, **PLANNED}.items() <= answer["figures"].items()


def test_of_two_ranks_the_one_without_memory_is_named(engine: ForkedEngine, model: str) -> None:
    fault = {
        "hooks": SAMPLER,
        "below": ["compile_or_warm_up_model", "_dummy_sampler_run"],
        "rank": 1,
    }
    arguments = [*EAGER, *UTILIZATION, "--tensor-parallel-size", "2"]
    answer, log = after_the_cache(engine, model, arguments, fault)

    assert "(Worker_TP0 pid=" in log
    assert verdict(answer) == ("gpu_out_of_memory", "warmup", "sampler", "certain")
    assert answer["ranks"] == [1]
    assert {**PRINTED, **PLANNED, "dummy_requests": 256}.items() <= answer["figures"].items()
