"""Measures the daemon at rest, with one ready instance and eight GPUs, and how fast status is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.table import Row
from benchmarks.warden import Scene, Warden, running
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import ENVIRONMENT, make_host
from vllm_warden.simulation.models import write_minimax_m25
from vllm_warden.simulation.plan import SPEED
from vllm_warden.simulation.program import write_program

MIB = 1 << 20
MEMORY_BUDGET_MIB = 64.0
CPU_BUDGET_PERCENT = 0.1
STATUS_BUDGET_MILLISECONDS = 250.0
STATUS_RUNS = 30
SLICE_SECONDS = 20.0
CPUCLOCK_SCHED = 2


def measure(directory: Path, log_backend: str, seconds: float) -> list[Row]:
    """Settle for ``seconds``, then watch as long in slices; then ask for the status."""
    gpus = make_host(directory / "gpus")
    scene = Scene(
        directory,
        log_backend,
        write_program(directory / "bin"),
        write_minimax_m25(directory / "model"),
        gpus=(0, 1, 2, 3),
        environment={ENVIRONMENT: str(gpus), SPEED: "600"},
        engine={"tensor_parallel_size": 4, "max_model_len": 32768, "max_num_seqs": 128},
        daemon_environment=driver_environment(gpus),
    )
    with running(scene) as warden:
        warden.wait_for_state("ready")
        time.sleep(seconds)
        pid = warden.process.pid
        rss, pss, percents = _watch(pid, seconds)
        status = [_status(warden) for _ in range(STATUS_RUNS)]
    return [
        Row("at rest, RSS", "MiB", tuple(rss), MEMORY_BUDGET_MIB),
        Row("at rest, PSS", "MiB", tuple(pss)),
        Row("at rest, CPU", "% core", tuple(percents), CPU_BUDGET_PERCENT, _cpu_note(seconds)),
        Row("vllm-warden status", "ms", tuple(status), STATUS_BUDGET_MILLISECONDS),
    ]


def _cpu_note(seconds: float) -> str:
    return f"slices of {SLICE_SECONDS:g} s, begun {seconds:g} s after the instance was ready"


def _watch(pid: int, seconds: float) -> tuple[list[float], list[float], list[float]]:
    rss, pss, percents = [], [], []
    for _ in range(max(1, round(seconds / SLICE_SECONDS))):
        began, used = time.monotonic(), cpu_seconds(pid)
        time.sleep(SLICE_SECONDS)
        percents.append(100 * (cpu_seconds(pid) - used) / (time.monotonic() - began))
        sizes = memory_bytes(pid)
        rss.append(sizes["Rss"] / MIB)
        pss.append(sizes["Pss"] / MIB)
    return rss, pss, percents


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, ended ones included, to the nanosecond.

    The clock id is what clock_getcpuclockid(3) gives: the pid's complement, and CPUCLOCK_SCHED.
    """
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def memory_bytes(pid: int) -> dict[str, int]:
    """The sums of /proc/PID/smaps_rollup."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    words = [line.split() for line in lines]
    return {word[0].rstrip(":"): int(word[1]) * 1024 for word in words}


def _status(warden: Warden) -> float:
    program = Path(sys.executable).with_name("vllm-warden")
    began = time.perf_counter()
    subprocess.run(
        [program, "status"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"WARDEN_SOCKET": warden.client.socket_path},
    )
    return (time.perf_counter() - began) * 1000
