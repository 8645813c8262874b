"""Plays many scenarios on all cores, each under every policy that was asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from benchmarks.convergence import baselines, oracle
from benchmarks.convergence.families import FAMILIES, scenario
from benchmarks.convergence.play import Game, play
from benchmarks.convergence.scenario import Scenario
from benchmarks.convergence.score import Mark, mark
from benchmarks.convergence.stress import stressed
from benchmarks.convergence.warden import play_warden

CHUNK = 24
OWN = "vllm-warden"


def policies() -> dict[str, Callable[[Scenario], Game]]:
    """Each policy as what it does with a scenario."""
    others = {name: partial(play, policy=policy) for name, policy in baselines.BASELINES.items()}
    return {**others, OWN: play_warden}


@dataclass(frozen=True, slots=True)
class Work:
    """What is played: which scenarios, under which policies, with which assumption broken."""

    seed: int
    names: tuple[str, ...]
    family: str | None = None
    stress: str | None = None

    def scenario(self, number: int) -> Scenario:
        drawn = scenario(self.seed, number, self.family)
        return drawn if self.stress is None else stressed(drawn, self.stress)

    def marks(self, numbers: Sequence[int]) -> list[Mark]:
        """Draws each scenario, finds its best settings, plays every policy."""
        known, found = policies(), []
        for number in numbers:
            drawn = self.scenario(number)
            best = oracle.best(drawn)
            found += [mark(name, drawn, best, known[name](drawn)) for name in self.names]
        return found


def every_mark(work: Work, count: int, jobs: int | None = None) -> Iterator[list[Mark]]:
    """The marks of one chunk after another, in the order of the scenarios' numbers."""
    chunks = [range(at, min(at + CHUNK, count)) for at in range(0, count, CHUNK)]
    if jobs == 1:
        yield from map(work.marks, chunks)
        return
    with ProcessPoolExecutor(jobs or os.cpu_count()) as pool:
        yield from pool.map(work.marks, chunks)


def known_family(text: str) -> str:
    """A family by any part of its name that is nobody else's. Raises ValueError."""
    found = [name for name in FAMILIES if text.lower() in name.lower()]
    if text in FAMILIES:
        return text
    if len(found) != 1:
        raise ValueError(f"cannot tell the family {text!r}: it is one of {', '.join(FAMILIES)}")
    return found[0]
