"""Tells one scenario from its beginning to its end: hidden values, attempts, what was decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from benchmarks.convergence import oracle, run
from benchmarks.convergence.boot import Outcome
from benchmarks.convergence.log_text import log_of
from benchmarks.convergence.play import Game
from benchmarks.convergence.scenario import GIB, Scenario
from benchmarks.convergence.score import mark

SHOWN_CHARACTERS = 300
BYTES = (
    *("total", "weights", "context", "nccl", "act_fixed", "graphs_full", "drift", "jitter"),
    "state_page",
)


def story(work: run.Work, number: int, *, logs: bool) -> str:
    told = work.scenario(number)
    lines = [f"scenario {number} (seed {work.seed}): {told.family}", "", *_truth(told)]
    best = oracle.best(told)
    lines += ["", f"best settings: {_settings(best.settings or {})}"]
    lines.append(f"capacity {best.capacity:.2f}, asked ones stay up: {best.asked_stays}")
    for name in work.names:
        game = run.policies()[name](told)
        lines += ["", f"--- {name}", *_game(told, game, logs=logs)]
        found = mark(name, told, best, game)
        shown = [f"{field.name} {getattr(found, field.name)}" for field in fields(found)]
        lines.append("  mark: " + ", ".join(shown[3:]))
    return "\n".join(lines)


def _truth(told: Scenario) -> Iterator[str]:
    truth = told.truth
    for field in fields(truth):
        value = getattr(truth, field.name)
        text = f"{value / GIB:.3f} GiB" if field.name in BYTES else str(value)
        yield f"  {field.name}: {truth.era.version if field.name == 'era' else text}"
    yield f"  KV bytes per token: {truth.kv_per_token}"
    yield f"  asked: {_settings(told.operator.asked)}"
    yield f"  bounds: {dict(told.operator.ranges)}, shares: {told.operator.share}"
    yield f"  neighbour: {told.neighbour}"
    yield f"  load: {told.load}"


def _game(told: Scenario, game: Game, *, logs: bool) -> Iterator[str]:
    for number, attempt in enumerate(game.attempts, start=1):
        yield f"  attempt {number} at {attempt.started_at:.0f} s: {_settings(attempt.settings)}"
        yield f"    {_needs(attempt)}"
        if attempt.wall is None:
            yield "    stays up"
        else:
            yield f"    {attempt.wall.value}: {attempt.room / GIB:.3f} GiB, {attempt.torch}"
        if logs:
            yield from (f"    | {line[:SHOWN_CHARACTERS]}" for line in log_of(told, attempt))
        if number <= len(game.notes):
            yield f"    then {game.notes[number - 1]}"
    if game.stopped:
        yield f"  stopped: {game.stopped}"


def _needs(attempt: Outcome) -> str:
    need = attempt.need
    names = ("requested", "activations", "sampler", "graphs", "estimate", "kv_request")
    parts = [f"{name} {getattr(need, name) / GIB:.2f}" for name in names]
    return ", ".join([*parts, f"available {attempt.available / GIB:.2f} GiB"])


def _settings(settings: object) -> str:
    assert isinstance(settings, dict)
    return ", ".join(f"{name} {value}" for name, value in settings.items())
