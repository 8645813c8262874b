"""Throws faults at real daemons: ``python -m tests.chaos --seconds 120``."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.chaos.faults import draw
from tests.chaos.invariants import looks
from tests.chaos.rest import wrong_at_rest
from tests.chaos.story import story
from tests.chaos.world import World, running

BURST_MAX = 16
STARTS_AGAIN = 0.7


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, help="stop after so many")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--seed", type=int, default=1, help="the same faults again [1]")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended all the same
    if options.faults is None and options.seconds is None:
        parser.error("say --faults or --seconds")
    wrong = []
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        run = Chaos(options.seed, options.faults or 10**9, options.seconds or 1e9)
        with running(Path(directory)) as world:
            try:
                wrong = run.until_broken(world)
            except (Exception, SystemExit):  # noqa: BLE001 -- told like any other failure
                wrong = traceback.format_exc().splitlines()
            if wrong:
                print(story(world), flush=True)
    # the end of a log is what is kept of it
    print(run.summary("everything held" if not wrong else "BROKEN"), *wrong, sep="\n  ", flush=True)
    return 1 if wrong else 0


class Chaos:
    """Bursts of faults; after each the host must come to rest with every invariant whole."""

    def __init__(self, seed: int, faults: int, seconds: float) -> None:
        self._seed = seed
        self._faults = faults
        self._seconds = seconds
        self._began = time.monotonic()
        self._thrown = 0

    def until_broken(self, world: World) -> list[str]:
        """What does not hold; nothing when all faults have been thrown and everything holds."""
        if world.disk.problem is not None:
            print(f"the disk is never full here: {world.disk.problem}", flush=True)
        random = Random(self._seed)
        wrong = wrong_at_rest(world, looks(world))
        while not wrong and self._thrown < self._faults and self._passed < self._seconds:
            burst = [*started(world, random)]
            for _ in range(random.randint(1, BURST_MAX)):
                burst.append(draw(world, random)(world, random))
                self._thrown += 1
                time.sleep(random.uniform(0, 0.4))
            world.resume_all()
            wrong = wrong_at_rest(world, looks(world))
            print(f"{self._thrown:5} faults, {self._passed:6.0f} s: {'; '.join(burst)}", flush=True)
        return wrong

    @property
    def _passed(self) -> float:
        return time.monotonic() - self._began

    def summary(self, verdict: str) -> str:
        return f"{self._thrown} faults in {self._passed:.0f} s, seed {self._seed}: {verdict}"


def started(world: World, random: Random) -> Iterator[str]:
    """Most of what was stopped or held runs again: what does not run cannot be broken."""
    for name, one in world.status().items():
        if one["wanted"] != "running" and random.random() < STARTS_AGAIN:
            world.ask(name, "start")
            yield f"start {name}"


if __name__ == "__main__":
    sys.exit(main())
