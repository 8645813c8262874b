"""Times the takeover: from the start of a daemon to an engine of the last one being watched."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks import engine as engines
from benchmarks.table import Row
from benchmarks.warden import Scene, Warden, running

LIMIT_SECONDS = 30.0
STEPS = {"engine-adopted": "daemon start to takeover", "engine-ready": "daemon start to ready"}


def measure(directory: Path, log_backend: str, rounds: int) -> list[Row]:
    """The daemon is killed again and again; its engine is idle and stays the same."""
    engine = engines.build(directory / "engine")
    scene = Scene(directory, log_backend, engine.program, environment=engine.environment())
    values: dict[str, list[float]] = {step: [] for step in STEPS}
    with running(scene) as warden:
        warden.wait_for_state("ready")
        for _ in range(rounds):
            last = max(int(str(one["number"])) for one in warden.events())
            began = warden.replace()
            for step, at in _steps(warden, last).items():
                values[step].append((at - began) * 1000)
    note = "of that most is Python's own start"
    return [Row(name, "ms", tuple(values[step]), None, note) for step, name in STEPS.items()]


def _steps(warden: Warden, after: int) -> dict[str, float]:
    """Wall time of each step of one takeover."""
    warden.wait_for_state("ready")
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        found = {
            str(one["event"]): float(str(one["at"]))
            for one in warden.events(after)
            if one["event"] in STEPS
        }
        if len(found) == len(STEPS):
            return found
        time.sleep(0.1)
    raise TimeoutError("the engine was not taken over")
