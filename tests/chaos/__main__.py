"""Throws faults at real daemons: ``python -m tests.chaos --seconds 120``."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.chaos.faults import draw
from tests.chaos.invariants import broken, settled
from tests.chaos.world import World, running, wait

BURST_MAX = 16
STARTS_AGAIN = 0.7
SETTLE_SECONDS = 45.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    parser.add_argument("--faults", type=int, help="stop after so many")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--seed", type=int, default=1, help="the same faults again [1]")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended all the same
    if options.faults is None and options.seconds is None:
        parser.error("say --faults or --seconds")
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as directory,
        running(Path(directory)) as world,
    ):
        return chaos(world, options.seed, options.faults or 10**9, options.seconds or 1e9)


def chaos(world: World, seed: int, faults: int, seconds: float) -> int:
    """Bursts of faults; after each the host must come to rest with every invariant whole."""
    random = Random(seed)
    began, thrown = time.monotonic(), 0
    wait(lambda: settled(world), SETTLE_SECONDS)
    while thrown < faults and time.monotonic() - began < seconds:
        burst = [*started(world, random)]
        for _ in range(random.randint(1, BURST_MAX)):
            burst.append(draw(random)(world, random))
            thrown += 1
            time.sleep(random.uniform(0, 0.4))
        world.resume_all()
        wait(lambda: settled(world), SETTLE_SECONDS)
        wrong = [] if wait(lambda: not broken(world), 10) else broken(world)
        print(
            f"{thrown:5} faults, {time.monotonic() - began:6.0f} s: {'; '.join(burst)}", flush=True
        )
        if wrong:
            print(f"seed {seed}, after {thrown} faults:", *wrong, sep="\n  ")
            print(world.warden.story())
            return 1
    print(f"{thrown} faults in {time.monotonic() - began:.0f} s, seed {seed}: everything held")
    return 0


def started(world: World, random: Random) -> Iterator[str]:
    """Most of what was stopped or held runs again: what does not run cannot be broken."""
    for name, one in world.status().items():
        if one["wanted"] != "running" and random.random() < STARTS_AGAIN:
            world.warden.client.post(f"/v1/instances/{name}/start")
            yield f"start {name}"


if __name__ == "__main__":
    sys.exit(main())
