"""Plays one attempt: a start through all its walls, then serving, until death or the horizon."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

from benchmarks.convergence import physics
from benchmarks.convergence.physics import Needs, Others
from benchmarks.convergence.scenario import GIB, MIB, Scenario, Settings, Wall
from benchmarks.convergence.world import World

LOAD_BYTES_PER_SECOND = 1.2 * GIB
HORIZON_SECONDS = 4 * 3600.0
"""An engine that is up so long after its last start has stayed up."""


@dataclass(frozen=True, slots=True)
class Torch:
    """The figures of a torch out-of-memory error, in bytes."""

    tried: int
    free: int
    allocated: int
    private: int
    unallocated: int
    process: int
    others: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended. ``wall`` None: it stays up.

    ``ready_at`` and ``ended_at`` are the world's seconds. ``others`` and ``noise`` are what it
    met, so that the same wall can be measured with other settings. ``captured`` counts graphs.
    """

    wall: Wall | None
    settings: Settings
    need: Needs
    others: Others
    noise: int
    room: int
    started_at: float
    ended_at: float
    ready_at: float | None
    available: int
    tokens: int
    torch: Torch | None = None
    part: int = 0
    captured: int = 0
    spike: int = 0


@dataclass(frozen=True, slots=True)
class Met:
    """What an attempt met beside its settings."""

    others: Others
    noise: int
    spike: int = 0


def noise_of(scenario: Scenario, attempt: int) -> int:
    """The same for every policy: what differs between two starts of the same settings."""
    spread = scenario.truth.jitter
    return int(random.Random(f"{scenario.seed}/noise/{attempt}").uniform(-spread, spread))


def boot(scenario: Scenario, world: World, settings: Settings, attempt: int) -> Outcome:
    """Run one attempt in the world; the world's clock is at its end afterwards."""
    truth, noise, started = scenario.truth, noise_of(scenario, attempt), world.now
    if scenario.operator.bad_flag:
        world.pass_to(started + 9)
        return _outcome(
            scenario, settings, Met(Others(), noise), Wall.FLAG, (started, world.now, None)
        )
    world.pass_to(started + 14)
    world.reach(Wall.INIT)
    init = world.others
    others = Others(init, init, init)
    for wall, seconds in (
        (Wall.INIT, 1.0),
        (Wall.LOAD, truth.weights / LOAD_BYTES_PER_SECOND),
        (Wall.PROFILE_SAMPLER, 45.0),
        (Wall.KV_ALLOC, 3.0),
        (Wall.CAPTURE, 20.0),
        (Wall.WARMUP, 5.0),
    ):
        world.pass_to(world.now + seconds)
        world.reach(wall)
        others = _seen(others, wall, world.others)
        room = physics.slacks(truth, settings, others, noise)
        hit = physics.first_wall(room, wall)
        if hit is not None:
            times = (started, world.now, None)
            return _outcome(scenario, settings, Met(others, noise), hit, times)
    return _serve(scenario, world, settings, attempt, (others, noise, started))


def _seen(others: Others, wall: Wall, now: int) -> Others:
    if wall in (Wall.INIT, Wall.LOAD):
        return Others(others.init, now, now)
    if wall is Wall.PROFILE_SAMPLER:
        return Others(others.init, now, now)
    return Others(others.init, others.profile, now)


def _serve(
    scenario: Scenario,
    world: World,
    settings: Settings,
    attempt: int,
    met: tuple[Others, int, float],
) -> Outcome:
    others, noise, started = met
    world.pass_to(world.now + 8)
    ready, load = world.now, scenario.load
    happens: list[tuple[float, Wall]] = []
    if load.full_batch_after is not None:
        happens.append((ready + load.full_batch_after, Wall.FULL_BATCH))
    if load.spike_bytes:
        happens.append((ready + load.spike_after, Wall.SPIKE))
    if attempt <= load.exits:
        happens.append((ready + load.exit_after, Wall.EXIT))
    if (moved := world.next_move_seconds()) is not None and moved < ready + HORIZON_SECONDS:
        happens.append((moved + 60.0, Wall.FULL_BATCH))
    for at, wall in sorted(happens, key=lambda one: one[0]):
        world.pass_to(at)
        world.reach(Wall.FULL_BATCH)
        others = Others(others.init, others.profile, world.others)
        spike = load.spike_bytes if wall is Wall.SPIKE else 0
        room = physics.slacks(scenario.truth, settings, others, noise, spike)
        if wall is Wall.EXIT or room[wall] < 0:
            times = (started, world.now, ready)
            return _outcome(scenario, settings, Met(others, noise, spike), wall, times)
    times = (started, ready + HORIZON_SECONDS, ready)
    return _outcome(scenario, settings, Met(others, noise), None, times)


def _outcome(
    scenario: Scenario,
    settings: Settings,
    met: Met,
    wall: Wall | None,
    times: tuple[float, float, float | None],
) -> Outcome:
    truth, others = scenario.truth, met.others
    need = physics.needs(truth, settings)
    room = physics.slacks(truth, settings, others, met.noise, met.spike)
    torch, part, captured = _torch(scenario, settings, met, wall)
    return Outcome(
        wall=wall,
        settings=settings,
        need=need,
        others=others,
        noise=met.noise,
        room=0 if wall in (None, Wall.FLAG, Wall.EXIT) else room[wall],
        started_at=times[0],
        ended_at=times[1],
        ready_at=times[2],
        available=physics.available_kv(truth, settings, need, others),
        tokens=physics.kv_tokens(truth, settings, others),
        torch=torch,
        part=part,
        captured=captured,
        spike=met.spike,
    )


def _torch(
    scenario: Scenario, settings: Settings, met: Met, wall: Wall | None
) -> tuple[Torch | None, int, int]:
    """Figures of the failing allocation, which chunk of the whole it was, graphs captured."""
    truth, waste = scenario.truth, 1 + scenario.truth.fragmentation
    need, others, spike = physics.needs(truth, settings), met.others, met.spike
    outside = truth.context + truth.nccl
    kv = physics.allocated_kv(truth, physics.available_kv(truth, settings, need, others))
    after = (truth.weights + kv, truth.drift + met.noise)
    shares = [one / truth.era.sampler_bytes for one in truth.era.sampler]
    sampler = [int(need.sampler * share) for share in shares]
    forward = [need.activations // 6] * 6
    batch = sampler if need.sampler > need.activations else forward
    plans: dict[Wall, tuple[int, int, list[int], float]] = {
        Wall.LOAD: (0, 0, [truth.weights // (truth.layers * 3)] * truth.layers * 3, 1.0),
        Wall.PROFILE_FORWARD: (truth.weights, 0, forward, waste),
        Wall.PROFILE_SAMPLER: (truth.weights, 0, sampler, waste),
        Wall.KV_ALLOC: (truth.weights, 0, [kv // truth.layers] * truth.layers, 1.0),
        Wall.CAPTURE: (*after, _graph_steps(scenario, need), 1.0),
        Wall.WARMUP: (after[0] + need.graphs, after[1], sampler, waste),
        Wall.FULL_BATCH: (after[0] + need.graphs, after[1], batch, waste),
        Wall.SPIKE: (after[0] + need.graphs, after[1], [*batch, spike], waste),
    }
    if wall not in plans:
        return None, 0, 0
    allocated, lost, chunks, factor = plans[wall]
    level = others.init if wall is Wall.LOAD else others.later
    free = truth.total - level - outside - allocated - lost
    part = 0
    for part, chunk in enumerate(chunks):  # noqa: B007
        if int(chunk * factor) > free:
            break
        free -= int(chunk * factor)
        allocated += chunk
        lost += int(chunk * factor) - chunk
    tried = max(chunks[part], free + 2 * MIB)
    tried = -(-tried // (2 * MIB)) * 2 * MIB if tried >= 10 * MIB else tried
    private = {Wall.CAPTURE: sum(chunks[:part]), Wall.WARMUP: need.graphs}.get(wall, 0)
    if wall in (Wall.FULL_BATCH, Wall.SPIKE):
        private = need.graphs
    process = outside + allocated + max(0, lost)
    torch = Torch(tried, max(0, free), allocated, private, max(0, lost), process, level)
    return torch, part, part if wall is Wall.CAPTURE else 0


def _graph_steps(scenario: Scenario, need: Needs) -> list[int]:
    """What each captured size adds, the largest size first."""
    whole = [physics.graph_bytes(scenario.truth, size) for size in range(need.sizes + 1)]
    return [after - before for before, after in itertools.pairwise(whole)] or [0]
