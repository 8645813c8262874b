"""Engines that become ready: processes, memory, HTTP, signals, deaths."""

from __future__ import annotations

import json
import os
import signal

from tests.simulation.conftest import Engine, Host, until

GOOD = (
    *("--tensor-parallel-size", "4", "--max-model-len", "131072"),
    *("--gpu-memory-utilization", "0.9411"),
)


def ready(host: Host, *words: str, **environment: str) -> Engine:
    engine = host.serve(*(words or GOOD), **environment)
    engine.wait_ready()
    engine.tree()
    return engine


def complete(
    engine: Engine, prompt: str = "hello", timeout: float = 10, **headers: str
) -> tuple[int, bytes]:
    body = json.dumps({"prompt": prompt, "max_tokens": 2}).encode()
    return engine.get("/v1/completions", body, timeout, **headers)


def test_a_lowered_utilization_becomes_ready_and_answers(host: Host) -> None:
    engine = ready(host)
    status, body = complete(engine)
    assert status == 200
    assert json.loads(body)["usage"]["completion_tokens"] == 2
    assert b'vllm:request_success_total{engine="0"' in engine.get("/metrics")[1]
    assert json.loads(engine.get("/v1/models")[1])["data"][0]["id"] == str(host.model)


def test_nothing_listens_before_the_engine_is_ready(host: Host) -> None:
    engine = host.serve(*GOOD, WARDEN_SIMULATED_SPEED="200")
    engine.wait_log("Starting to load model")
    assert engine.get("/health")[0] == 0
    engine.wait_ready()


def test_the_process_tree_has_the_titles_of_the_real_one(host: Host) -> None:
    tree = ready(host).tree()
    workers = [f"VLLM::Worker_TP{rank}" for rank in range(4)]
    assert sorted(tree) == ["VLLM::EngineCore", *workers]


def test_every_worker_holds_its_memory_under_its_own_pid(host: Host) -> None:
    tree = ready(host, *GOOD, CUDA_VISIBLE_DEVICES="4,5,6,7").tree()
    held = host.nvml(
        "[[(p.pid, p.usedGpuMemory >> 30) for p in N.nvmlDeviceGetComputeRunningProcesses(d)] "
        "for d in D]"
    )
    expected: list[list[tuple[int, int]]] = [[], [], [], []]
    expected += [[(tree[f"VLLM::Worker_TP{rank}"], 94)] for rank in range(4)]
    assert held == str(expected)


def test_a_killed_workers_memory_is_free_at_once_without_lingering(host: Host) -> None:
    engine = ready(host)
    engine.end()
    assert host.nvml("N.nvmlDeviceGetMemoryInfo(D[0]).free >> 20") == "97250"


def test_with_lingering_the_memory_of_the_dead_drains_and_belongs_to_nobody(host: Host) -> None:
    (host.gpus / "linger_seconds").write_text("1.0")
    engine = ready(host)
    engine.end()
    seen = host.nvml(
        "N.nvmlDeviceGetMemoryInfo(D[0]).used >> 30, "
        "len(N.nvmlDeviceGetComputeRunningProcesses(D[0]))"
    )
    assert seen == "95 0"
    until(lambda: host.nvml("N.nvmlDeviceGetMemoryInfo(D[0]).free >> 20") == "97250")


def test_a_killed_worker_takes_the_engine_down_with_status_zero(host: Host) -> None:
    engine = ready(host, *GOOD, WARDEN_SIMULATED_SPEED="300")
    os.kill(engine.tree()["VLLM::Worker_TP2"], signal.SIGKILL)
    until(lambda: engine.get("/health")[0] == 503)
    assert engine.process.wait(timeout=20) == 0
    assert "Worker proc VllmWorker-2 died unexpectedly, shutting down executor." in engine.log
    assert "Engine core proc" not in engine.log
    until(engine.gone)


def test_a_killed_engine_core_takes_the_engine_down_with_status_zero(host: Host) -> None:
    engine = ready(host)
    os.kill(engine.tree()["VLLM::EngineCore"], signal.SIGKILL)
    assert engine.process.wait(timeout=20) == 0
    assert "Engine core proc EngineCore_DP0 died unexpectedly, shutting down client." in engine.log
    assert "EngineDeadError" in engine.log
    until(engine.gone)


def test_a_killed_parent_leaves_engine_core_and_workers_behind(host: Host) -> None:
    engine = ready(host)
    engine.process.kill()
    engine.process.wait()
    assert not engine.gone()
    assert host.nvml("N.nvmlDeviceGetMemoryInfo(D[3]).used >> 30") == "95"


def test_sigterm_stops_a_ready_engine_in_good_order(host: Host) -> None:
    engine = ready(host)
    engine.process.terminate()
    assert engine.process.wait(timeout=20) == 0
    assert "Application shutdown complete." in engine.log
    assert engine.gone()


def test_the_first_sigterm_while_loading_is_lost(host: Host) -> None:
    engine = host.serve(*GOOD, WARDEN_SIMULATED_SPEED="300")
    engine.wait_log("Starting to load model")
    engine.process.terminate()
    engine.wait_ready()


def test_further_sigterms_while_loading_end_it_by_the_signal(host: Host) -> None:
    engine = host.serve(*GOOD, WARDEN_SIMULATED_SPEED="60")
    engine.wait_log("Starting to load model")
    engine.tree()

    def ended() -> bool:
        engine.process.terminate()
        return engine.process.poll() is not None

    until(ended)
    assert engine.process.returncode == -signal.SIGTERM
    assert engine.gone()


def test_one_sigint_while_loading_ends_it_by_the_signal(host: Host) -> None:
    engine = host.serve(*GOOD, WARDEN_SIMULATED_SPEED="60")
    engine.wait_log("Starting to load model")
    engine.tree()
    engine.process.send_signal(signal.SIGINT)
    assert engine.process.wait(timeout=20) == -signal.SIGINT
    assert engine.gone()


def test_a_hung_worker_answers_health_but_no_completion(host: Host) -> None:
    engine = ready(host)
    os.kill(engine.tree()["VLLM::Worker_TP1"], signal.SIGSTOP)
    assert engine.get("/health")[0] == 200
    assert complete(engine, timeout=0.3)[0] == 0
    os.kill(engine.tree()["VLLM::Worker_TP1"], signal.SIGCONT)
    assert complete(engine)[0] == 200


def test_a_full_batch_kills_an_engine_that_only_had_its_sequences_lowered(host: Host) -> None:
    words = (*GOOD[:4], "--gpu-memory-utilization", "0.95", "--max-num-seqs", "256")
    engine = ready(host, *words)
    assert complete(engine)[0] == 200
    assert complete(engine, "word " * 40_000)[0] == 500
    assert engine.process.wait(timeout=20) == 0
    assert "EngineCore encountered a fatal error." in engine.log
    assert "in execute_model" in engine.log


def test_without_gpus_it_is_a_small_engine_that_is_ready_at_once(host: Host) -> None:
    engine = host.serve(model="any/name", CUDA_VISIBLE_DEVICES="")
    engine.wait_ready()
    assert list(engine.tree()) == ["VLLM::EngineCore"]
    assert complete(engine)[0] == 200


def test_the_api_key_guards_the_models_but_not_health(host: Host) -> None:
    engine = host.serve(model="any/name", CUDA_VISIBLE_DEVICES="", VLLM_API_KEY="sesame")
    engine.wait_ready()
    assert complete(engine)[0] == 401
    assert complete(engine, Authorization="Bearer sesame")[0] == 200
