"""The phase tracker on real logs, and what it notes on the way."""
# ruff: noqa: E501 - log lines stand here as they are printed

from __future__ import annotations

import time

import pytest

from tests.core.diagnose.sample_files import CAPTURED, SAMPLES, load
from vllm_warden.core.diagnose.phases import ORDER, PhaseTracker
from vllm_warden.core.model import Phase


def track(*texts: str) -> tuple[PhaseTracker, list[Phase]]:
    tracker = PhaseTracker()
    return tracker, [phase for text in texts if (phase := tracker.feed(text))]


LOGS = sorted([*CAPTURED.glob("*/*.log"), *SAMPLES.glob("*/*.log")])


@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
def test_phases_only_move_forward(path) -> None:
    _, phases = track(*load(path).lines)
    assert phases == sorted(set(phases), key=lambda phase: ORDER[phase])


def test_a_healthy_start_of_a_gpu_engine_passes_all_phases() -> None:
    tag = "(Worker_TP0 pid=3) INFO 11-29 14:41:09 [gpu_worker.py:9] "
    tracker, phases = track(
        "(APIServer pid=1) INFO 11-29 14:41:00 [utils.py:9] non-default args: {}",
        tag + "Initializing a V1 LLM engine (v0.20.2) with config: model='m'",
        tag + "Starting to load model m...",
        tag + "Model loading took 66.21 GiB memory and 41.20 seconds",
        tag + "Available KV cache memory: 5.02 GiB",
        tag + "GPU KV cache size: 32,896 tokens, Maximum concurrency for 8,192 tokens per request: 4.02x",
        "Capturing CUDA graphs (decode, FULL):  31%|###       | 11/35 [00:01<00:03,  7.01it/s]",
        tag + "Graph capturing finished in 7 secs, took 0.95 GiB",
        tag + "CUDA graph pool memory: 0.94 GiB (actual), 0.80 GiB (estimated), difference: 0.14 GiB",
        "(APIServer pid=1) INFO:     Application startup complete.",
        "(APIServer pid=1) INFO:     Shutting down",
    )  # fmt: skip
    assert phases == [
        Phase.ARGS, Phase.INIT_DEVICE, Phase.LOAD, Phase.PROFILE, Phase.KV_PLAN, Phase.KV_ALLOC,
        Phase.CUDAGRAPH, Phase.WARMUP, Phase.SERVING, Phase.SHUTDOWN,
    ]  # fmt: skip
    facts = tracker.facts
    assert facts.engine_version == "0.20.2"
    assert (facts.weights_gib, facts.available_kv_gib, facts.kv_tokens) == (66.21, 5.02, 32896)
    assert (facts.max_concurrency, facts.graphs_gib, facts.graphs_estimated_gib) == (
        4.02,
        0.94,
        0.8,
    )
    assert tracker.before_shutdown is Phase.SERVING


def test_a_cpu_engine_enters_profile_at_its_own_marker() -> None:
    text = "(Worker pid=1) INFO 11-29 13:37:15 [cpu_model_runner.py:87] Warming up model for the compilation..."
    assert track(text)[1] == [Phase.PROFILE]


def test_a_json_log_is_followed_too() -> None:
    text = '{"asctime": "x", "levelname": "INFO", "name": "vllm", "message": "Starting to load model m..."}'
    assert track(text)[1] == [Phase.LOAD]


def test_the_smallest_kv_memory_of_all_ranks_is_kept() -> None:
    line = "(Worker_TP{} pid=3) INFO 11-29 14:41:09 [gpu_worker.py:9] Available KV cache memory: {} GiB"
    assert track(line.format(0, -1.06), line.format(1, 5.0))[0].facts.available_kv_gib == -1.06


def test_a_prompt_that_quotes_a_marker_moves_nothing() -> None:
    text = "(APIServer pid=1) INFO 11-29 14:41:09 [logger.py:40] Received request: prompt: 'x] Shutting down'"
    assert track(text)[1] == []


def test_a_line_costs_microseconds() -> None:
    lines = load(next(path for path in LOGS if "captured" in str(path))).lines * 20
    tracker = PhaseTracker()
    begin = time.process_time()
    for line in lines:
        tracker.feed(line)
    assert (time.process_time() - begin) / len(lines) < 20e-6


def test_a_head_that_was_seen_before_hides_no_marker():
    head = "(EngineCore_0 pid=7) INFO 11-29 15:22:23 [gpu_model_runner.py:487] "
    for message in (
        "Starting to load model m",
        "[rank 0] Starting to load model m",
        "\x1b[0mStarting to load model m",
        "x\r" + head + "Starting to load model m",
    ):
        tracker = PhaseTracker()
        assert tracker.feed(head + "nothing of note") is None
        assert tracker.feed(head + message) is Phase.LOAD
    assert PhaseTracker().feed("x] " + head + "Starting to load model m") is Phase.LOAD
    assert PhaseTracker().feed("INFO:     Application startup complete. [x] y") is Phase.SERVING


def test_how_many_graphs_were_captured_is_read_off_the_last_progress_bar() -> None:
    tracker = PhaseTracker()
    head = "(EngineCore_DP0 pid=9) Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): "
    tracker.feed(head + " 0%|          | 0/51 [00:00<?, ?it/s]")
    tracker.feed(head + "43%|████▎     | 22/51 [00:09<00:06,  2.31it/s]")

    assert (tracker.facts.graphs_captured, tracker.facts.graphs_sizes) == (22, 51)


def test_a_progress_bar_says_nothing_once_users_can_write() -> None:
    bar = "Capturing CUDA graphs (decode, FULL):  31%|###       | 11/35 [00:01<00:03,  7.01it/s]"
    tracker = PhaseTracker()
    tracker.feed(bar)
    assert (tracker.facts.graphs_captured, tracker.facts.graphs_sizes) == (11, 35)
    tracker.feed("INFO 11-29 16:10:00 [launcher.py:38] Available routes are:")
    tracker.feed(bar.replace("11/35", "1/35"))
    assert tracker.facts.graphs_captured == 11
