"""Times kill to exec: a ready idle child is killed, and the first thing the next one does."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks import engine as engines
from benchmarks import peers
from benchmarks.table import Row, missing
from benchmarks.warden import Scene, Warden, running

BUDGET_MILLISECONDS = 50.0
NAME = "kill to exec"
RESTART = {
    "startup_failures_max": 100_000,
    "unchanged_repeats_max": 100_000,
    "backoff_first_seconds": 0,
}
"""At the defaults the second crash within six hours waits 5 s and the fourth is held; here every
round stands for the first crash of its day."""


class Supervisor(Protocol):
    """One contestant with its own copy of the child."""

    @property
    def name(self) -> str: ...

    @property
    def engine(self) -> engines.Engine: ...

    def settle(self) -> None:
        """Return when the child counts as up."""


@dataclass(slots=True)
class Ours:
    engine: engines.Engine
    warden: Warden
    name: str = "vllm-warden"

    def settle(self) -> None:
        """Wait until it is ready and the daemon has nothing left to do."""
        self.warden.wait_for_state("ready")
        time.sleep(0.3)


@dataclass(slots=True)
class Score:
    supervisor: Supervisor
    values: list[float] = field(default_factory=list)


def measure(directory: Path, log_backend: str, rounds: int) -> list[Row]:
    """All supervisors alive at once, killed in turn, each with its default configuration."""
    environment, problem = peers.environment()
    runsv, runit_problem = peers.runit_program()
    with contextlib.ExitStack() as stack:
        scores = [Score(stack.enter_context(_ours(directory / "w", log_backend)))]
        if environment is not None:
            scores += [
                Score(stack.enter_context(start(directory, environment)))
                for start in (peers.supervisord, peers.circus)
            ]
        if runsv is not None:
            scores.append(Score(stack.enter_context(peers.runit(directory, runsv))))
        chance = random.Random(1)  # so that no kill is in step with a supervisor's own clock
        for _ in range(rounds):
            for score in scores:
                score.values.append(_round(score.supervisor, chance))
    rows = [
        Row(
            f"{NAME}, {score.supervisor.name}",
            "ms",
            tuple(score.values),
            BUDGET_MILLISECONDS if at == 0 else None,
        )
        for at, score in enumerate(scores)
    ]
    measured = {score.supervisor.name for score in scores}
    for name in peers.NAMES:
        if name not in measured:
            reason = runit_problem if name == "runit" else problem
            rows.append(missing(f"{NAME}, {name}", "ms", None, reason))
    return rows


def _round(supervisor: Supervisor, chance: random.Random) -> float:
    """Milliseconds from the signal to the first action of the new child."""
    supervisor.settle()
    time.sleep(chance.random())
    stamps = supervisor.engine.start_stamps()
    pid = stamps[-1][0]
    killed = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.kill(pid, signal.SIGKILL)
    _, started = supervisor.engine.next_start(len(stamps))
    return (started - killed) / 1e6


@contextlib.contextmanager
def _ours(directory: Path, log_backend: str) -> Iterator[Ours]:
    engine = engines.build(directory / "engine")
    scene = Scene(
        directory,
        log_backend,
        engine.program,
        environment=engine.environment(),
        restart=RESTART,
    )
    with running(scene) as warden:
        yield Ours(engine, warden)
