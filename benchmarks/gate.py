"""Times what the gate costs: with free GPUs, and from memory coming back to the next launch."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import engine as engines
from benchmarks.relaunch import RESTART
from benchmarks.table import Row
from benchmarks.warden import Scene, Warden, running
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import make_host

OVERHEAD_BUDGET_MILLISECONDS = 100.0
FREE_BUDGET_MILLISECONDS = 200.0
GPUS = 8
HELD_BYTES = 70 << 30
HELD_SECONDS = (0.5, 3.0)


@dataclass(slots=True)
class Contestant:
    """One daemon with an idle child; ``gpus`` is the directory of its host."""

    engine: engines.Engine
    warden: Warden
    gpus: Path

    def settle(self) -> None:
        self.warden.wait_for_state("ready")
        time.sleep(0.3)

    def kill(self) -> int:
        """How many starts there have been."""
        stamps = self.engine.start_stamps()
        os.kill(stamps[-1][0], signal.SIGKILL)
        return len(stamps)

    def started(self, after: int) -> float:
        """When the next one did its first thing, in nanoseconds of CLOCK_BOOTTIME."""
        return self.engine.next_start(after)[1]


def measure(directory: Path, log_backend: str, rounds: int) -> list[Row]:
    """A child without GPUs and one on all eight, killed in turn; then one whose memory lingers."""
    chance = random.Random(2)  # so that nothing is in step with the gate's looks
    with contextlib.ExitStack() as stack:
        without = stack.enter_context(_contestant(directory / "none", log_backend, 0))
        gated = stack.enter_context(_contestant(directory / "gpus", log_backend, GPUS))
        overheads = []
        for _ in range(rounds):
            time.sleep(chance.random())
            overheads.append(_kill_to_exec(gated) - _kill_to_exec(without))
        freed = [_freed_to_exec(gated, chance) for _ in range(rounds)]
    note = f"kill to exec on {GPUS} GPUs, less the same without GPUs, in turn"
    return [
        Row("gate, all free", "ms", tuple(overheads), OVERHEAD_BUDGET_MILLISECONDS, note),
        Row("memory free to exec", "ms", tuple(freed), FREE_BUDGET_MILLISECONDS),
    ]


def _kill_to_exec(one: Contestant) -> float:
    one.settle()
    killed = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return (one.started(one.kill()) - killed) / 1e6


def _freed_to_exec(one: Contestant, chance: random.Random) -> float:
    """The driver keeps a killed child's memory for a while."""
    one.settle()
    kept = one.gpus / "gpu3" / "stuck"
    kept.write_text(f"{HELD_BYTES}\n")
    starts = one.kill()
    time.sleep(chance.uniform(*HELD_SECONDS))
    kept.write_text("0\n")
    freed = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return (one.started(starts) - freed) / 1e6


@contextlib.contextmanager
def _contestant(directory: Path, log_backend: str, gpus: int) -> Iterator[Contestant]:
    engine = engines.build(directory / "engine")
    host = make_host(directory / "gpus", gpus=GPUS)
    scene = Scene(
        directory,
        log_backend,
        engine.program,
        gpus=tuple(range(gpus)),
        environment=engine.environment(),
        engine={"tensor_parallel_size": gpus} if gpus else {},
        restart=RESTART,
        daemon_environment=driver_environment(host),
    )
    with running(scene) as warden:
        yield Contestant(engine, warden, host)
