"""Measures how the daemon grows: 1 and 32 idle instances that share eight GPUs."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import engine as engines
from benchmarks.rest import MIB, cpu_seconds, memory_bytes
from benchmarks.table import Row
from benchmarks.warden import Scene, running
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import make_host

COUNTS = (1, 32)
GPUS = 8
SETTLE_SECONDS = 20.0
SLICES = 3


def measure(directory: Path, log_backend: str, seconds: float) -> list[Row]:
    """Each count in a daemon of its own, watched for ``seconds`` in three slices."""
    rows: list[Row] = []
    for count in COUNTS:
        rows += _with_instances(directory / str(count), log_backend, count, seconds)
    return rows


def _with_instances(directory: Path, log_backend: str, count: int, seconds: float) -> list[Row]:
    engine = engines.build(directory / "engine")
    host = make_host(directory / "gpus", gpus=GPUS)
    scene = Scene(
        directory,
        log_backend,
        engine.program,
        gpus=(0,),
        environment=engine.environment(),
        engine={"gpu_memory_utilization": 0.2},
        daemon_environment=driver_environment(host),
        instances=count,
        gpus_of_host=GPUS,
    )
    with running(scene) as warden:
        began = time.monotonic()
        warden.wait_for_all_ready()
        up = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        pid = warden.process.pid
        percents, sizes = [], []
        for _ in range(SLICES):
            used, at = cpu_seconds(pid), time.monotonic()
            time.sleep(seconds / SLICES)
            percents.append(100 * (cpu_seconds(pid) - used) / (time.monotonic() - at))
            sizes.append(memory_bytes(pid)["Rss"] / MIB)
    name = f"{count} instance{'s' if count > 1 else ''}"
    return [
        Row(f"{name}, daemon start to all ready", "s", (up,)),
        Row(f"{name}, RSS", "MiB", tuple(sizes)),
        Row(f"{name}, CPU", "% core", tuple(percents)),
    ]
