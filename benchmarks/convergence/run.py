"""Plays many scenarios on all cores, each under every policy that was asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from benchmarks.convergence import baselines, oracle
from benchmarks.convergence.families import FAMILIES, scenario
from benchmarks.convergence.play import Game, play
from benchmarks.convergence.scenario import Scenario
from benchmarks.convergence.score import Mark, mark
from benchmarks.convergence.warden import play_warden

CHUNK = 24
OWN = "vllm-warden"


def policies() -> dict[str, Callable[[Scenario], Game]]:
    """Each policy as what it does with a scenario."""
    others = {name: partial(play, policy=policy) for name, policy in baselines.BASELINES.items()}
    return {**others, OWN: play_warden}


def marks_of(
    seed: int, numbers: Sequence[int], family: str | None, names: Sequence[str]
) -> list[Mark]:
    """Runs in a worker process: draws each scenario, finds its best, plays every policy."""
    known, found = policies(), []
    for number in numbers:
        drawn = scenario(seed, number, family)
        best = oracle.best(drawn)
        found += [mark(name, drawn, best, known[name](drawn)) for name in names]
    return found


def every_mark(
    seed: int, count: int, family: str | None, names: Sequence[str], jobs: int | None = None
) -> Iterator[list[Mark]]:
    """The marks of one chunk after another, in the order of the scenarios' numbers."""
    chunks = [range(at, min(at + CHUNK, count)) for at in range(0, count, CHUNK)]
    work = partial(_chunk, seed, family, tuple(names))
    if jobs == 1:
        yield from map(work, chunks)
        return
    with ProcessPoolExecutor(jobs or os.cpu_count()) as pool:
        yield from pool.map(work, chunks)


def _chunk(seed: int, family: str | None, names: tuple[str, ...], numbers: range) -> list[Mark]:
    return marks_of(seed, numbers, family, names)


def known_family(text: str) -> str:
    """A family by any part of its name that is nobody else's. Raises ValueError."""
    found = [name for name in FAMILIES if text.lower() in name.lower()]
    if text in FAMILIES:
        return text
    if len(found) != 1:
        raise ValueError(f"cannot tell the family {text!r}: it is one of {', '.join(FAMILIES)}")
    return found[0]
