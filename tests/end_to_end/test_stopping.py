"""A stop loses no request that it could wait for, and is done when the memory is back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.wardens import Warden, complete, free_port, requests_running
from vllm_warden.simulation.host import Gpu

pytestmark = pytest.mark.slow


def on_gpus(warden: Warden, **variables: str) -> str:
    """The ``environment`` of an instance on the simulated GPUs."""
    gpus = warden.environment["WARDEN_SIMULATED_GPUS"]
    all_ = {"WARDEN_SIMULATED_SPEED": "50", "WARDEN_SIMULATED_GPUS": gpus, **variables}
    return "{ " + ", ".join(f'{key} = "{value}"' for key, value in all_.items()) + " }"


def test_an_engine_that_would_drop_its_requests_is_stopped_after_the_last(
    gpu_warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    port = free_port()
    gpu_warden.write_config(
        instance(
            "x",
            model,
            gpus="[0, 1]",
            port=port,
            drain_seconds=60.0,
            environment=on_gpus(gpu_warden, WARDEN_SIMULATED_VERSION="0.9.2"),
            engine="tensor_parallel_size = 2",
        )
    )
    gpu_warden.start()
    pids = gpu_warden.until_state("x", "ready", seconds=30)["pids"]["engine"]
    worker = next(int(pid) for pid, title in pids.items() if "Worker" in title)
    os.kill(worker, signal.SIGSTOP)
    words = [sys.executable, "-m", "vllm_warden", "--socket", str(gpu_warden.socket), "stop", "x"]
    with ThreadPoolExecutor(1) as others:
        answer = others.submit(complete, port, str(model))
        gpu_warden.until(lambda: requests_running(port) == 1, 10, "the request runs")
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as stop:
            gpu_warden.until(lambda: gpu_warden.status("x")["requests_left"] == 1, 10, "one left")
            status = gpu_warden.status("x")
            assert (status["state"], status["pids"]["parent"] is None) == ("stopping", False)
            assert "requests left: 1" in status["reason"]

            os.kill(worker, signal.SIGCONT)

            assert answer.result(30)["choices"]
            told, _ = stop.communicate(timeout=60)
    assert "requests left: 1" in told
    assert stop.returncode == 0
    status = gpu_warden.status("x")
    assert (status["state"], status["requests_left"]) == ("stopped", None)
    assert not gpu_warden.incidents("x")


def test_a_stop_is_done_when_the_memory_is_back(
    gpu_warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    gpus = Path(gpu_warden.environment["WARDEN_SIMULATED_GPUS"])
    (gpus / "linger_seconds").write_text("4\n")
    gpu_warden.write_config(instance("x", model, gpus="[0]", environment=on_gpus(gpu_warden)))
    gpu_warden.start()
    gpu_warden.until_state("x", "ready", seconds=30)

    assert gpu_warden.command("stop", "x").returncode == 0

    _, nobodys = Gpu(gpus / "gpu0").others(os.getpid())
    assert nobodys < 2 << 30
    assert gpu_warden.status("x")["reason"].startswith("stopped by ")
    assert "driver" not in gpu_warden.status("x")["reason"]


def test_memory_that_does_not_come_back_is_told_at_the_end_of_a_stop(
    gpu_warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    gpus = Path(gpu_warden.environment["WARDEN_SIMULATED_GPUS"])
    gpu_warden.write_config(instance("x", model, gpus="[0]", environment=on_gpus(gpu_warden)))
    gpu_warden.start()
    gpu_warden.until_state("x", "ready", seconds=30)
    (gpus / "gpu0" / "stuck").write_text(f"{9 << 30}\n")

    stop = gpu_warden.command("stop", "x")

    assert stop.returncode == 0
    assert "GPU 0: the driver keeps 8.62 GiB for processes that are gone" in stop.stdout
