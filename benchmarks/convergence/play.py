"""Plays a scenario under a policy that reads logs, and under ours; keeps each attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.convergence.boot import Outcome, boot
from benchmarks.convergence.log_text import log_of
from benchmarks.convergence.scenario import Scenario, Settings, Value
from benchmarks.convergence.world import World

RESTART_SECONDS = 10.0
LAUNCHES_MAX = 11


@dataclass(slots=True)
class Game:
    """What a policy did with a scenario. ``stopped`` says why it gave up, empty if it did not."""

    attempts: list[Outcome] = field(default_factory=list)
    stopped: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def stays_up(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].wall is None and not self.stopped

    @property
    def relaunches(self) -> int:
        return max(0, len(self.attempts) - 1)


@dataclass(frozen=True, slots=True)
class Next:
    """What a log-reading policy does after a death; ``settings`` None stops for good."""

    settings: Settings | None
    reason: str
    wait_seconds: float = RESTART_SECONDS


@dataclass(frozen=True, slots=True)
class Death:
    """All that such a policy sees: the log, what ran, what was asked, what it may move."""

    log: str
    settings: Settings
    asked: Settings
    ranges: Mapping[str, tuple[float, float]]
    number: int
    was_ready: bool
    free_bytes: int
    total_bytes: int
    history: tuple[str, ...]


Policy = Callable[[Death], Next]


def play(scenario: Scenario, policy: Policy) -> Game:
    """Launch with what was asked, then do as the policy says until it stops or all is well."""
    world, game = World(scenario), Game()
    settings: Settings = with_defaults(scenario)
    history: list[str] = []
    while len(game.attempts) < LAUNCHES_MAX:
        outcome = boot(scenario, world, settings, len(game.attempts) + 1)
        game.attempts.append(outcome)
        if outcome.wall is None:
            return game
        answer = policy(
            Death(
                log="\n".join(log_of(scenario, outcome)),
                settings=settings,
                asked=scenario.operator.asked,
                ranges=scenario.operator.ranges,
                number=len(game.attempts),
                was_ready=outcome.ready_at is not None,
                free_bytes=scenario.truth.total - world.others,
                total_bytes=scenario.truth.total,
                history=tuple(history),
            )
        )
        history.append(answer.reason)
        game.notes.append(answer.reason)
        if answer.settings is None:
            game.stopped = answer.reason
            return game
        settings = answer.settings
        world.pass_to(world.now + answer.wait_seconds)
    return game


def with_defaults(scenario: Scenario) -> dict[str, Value]:
    return dict(scenario.operator.asked)
