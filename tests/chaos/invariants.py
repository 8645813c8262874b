"""What must hold once a host has come to rest after faults; each returns what is wrong."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from tests.chaos.world import World, state_of

RESTING = {
    "running": {"ready", "held", "failed"},
    "stopped": {"stopped"},
    "held": {"ready", "held", "failed", "stopped"},
}


def nothing_is_amiss(world: World) -> Iterator[str]:
    """What the daemon complained of while a fault lasted is over with it."""
    yield from world.conditions()


def unsettled(world: World) -> Iterator[str]:
    """Every instance is as wanted, or held with a reason."""
    for name, one in world.status().items():
        if one["state"] not in RESTING[one["wanted"]]:
            yield f"{name} is wanted {one['wanted']} and is {one['state']}: {one['reason']}"
        if one["state"] in ("held", "failed") and not one["reason"]:
            yield f"{name} is {one['state']} and does not say why"


def every_process_belongs_to_the_current_attempt(world: World) -> Iterator[str]:
    """No process of ours without a record, and no engine twice."""
    status = world.status()
    for name, attempts in world.groups().items():
        one = status.get(name)
        expected = f"attempt-{one['attempt']}-" if one else ""
        running = one is not None and one["state"] in ("ready", "unready", "starting")
        for attempt, pids in attempts.items():
            if not running or not attempt.startswith(expected):
                yield f"{name}: processes {pids} of {attempt} while it is {one and one['state']}"
        if len(attempts) > 1:
            yield f"{name}: more than one attempt lives: {sorted(attempts)}"


def ready_engines_live(world: World) -> Iterator[str]:
    for name, one in world.status().items():
        if one["state"] == "ready" and state_of(one["pids"]["parent"] or 0) in ("", "Z", "X"):
            yield f"{name} is ready, but its process {one['pids']['parent']} is gone"


def bystanders_live(world: World) -> Iterator[str]:
    for one in world.bystanders:
        if one.poll() is not None:
            yield f"the foreign process {one.pid} was ended: {one.returncode}"


def no_gpu_is_shared(world: World) -> Iterator[str]:
    """The simulated driver lists a holder by its pid: it belongs to the instance of that GPU."""
    owners = {
        pid: name for name, all_ in world.groups().items() for one in all_.values() for pid in one
    }
    from tests.chaos.world import GPUS, INSTANCES

    for gpu in range(GPUS):
        for path in (world.gpus / f"gpu{gpu}" / "procs").glob("*"):
            pid = int(path.name) if path.name.isdigit() else 0
            owner = owners.get(pid)
            if owner is not None and gpu not in INSTANCES[owner]:
                yield f"GPU {gpu} is held by {owner} (pid {pid})"


def every_exit_has_one_incident(world: World) -> Iterator[str]:
    """Every exit that nobody asked for belongs to one incident; no incident is without one."""
    for name in world.status():
        told = Counter(_attempts_of_incidents(world, name))
        kept = [one for one in _attempts(world, name) if one["number"] > world.unkept.get(name, 0)]
        yield from (f"{name}: attempt {n} has {c} incidents" for n, c in told.items() if c > 1)
        for document in kept:
            number, outcome = document["number"], document["outcome"]
            # an incident lists its first failure and the newest 20
            if outcome == "died" and number not in told and number > max(told, default=0) - 15:
                yield f"{name}: attempt {number} died without an incident"
            if outcome == "stopped" and number in told:
                yield f"{name}: attempt {number} was stopped, and has an incident"
            if outcome == "lost with the daemon":
                yield f"{name}: attempt {number} was lost with the daemon"


def _attempts(world: World, name: str) -> list[dict[str, Any]]:
    document: Any = world.warden.client.get(f"/v1/instances/{name}")
    return list(document["attempts"])


def _attempts_of_incidents(world: World, name: str) -> Iterator[int]:
    listed: Any = world.warden.client.get(f"/v1/instances/{name}/incidents?limit=1000")
    for one in listed["incidents"]:
        document: Any = world.warden.client.get(f"/v1/incidents/{one['number']}")
        yield int(document["attempt"])
        yield from (int(failure["attempt"]) for failure in document["further"])


def the_history_is_whole(world: World) -> Iterator[str]:
    """Not damaged, and under the number that somebody was told stands what he asked for."""
    path = f"file:{world.directory}/state/history.db?mode=ro"
    try:
        with closing(sqlite3.connect(path, uri=True)) as database:
            (answer,) = database.execute("pragma integrity_check").fetchone()
            rows = dict(database.execute("select number, document from events"))
    except sqlite3.Error as error:
        yield f"the history cannot be read: {error}"
        return
    if answer != "ok":
        yield f"the history is damaged: {answer}"
    for one in world.asked[-50:]:
        if one.daemon_pid != world.daemon_pid:
            continue  # a daemon that is killed may not have written it yet
        event = json.loads(rows.get(one.event, "{}"))
        if (event.get("instance"), event.get("data", {}).get("verb")) != (one.instance, one.verb):
            yield f"event {one.event} is not {one.verb} {one.instance}, but {event or 'not there'}"


Invariant = Callable[[World], Iterator[str]]
AT_REST: tuple[Invariant, ...] = (unsettled, nothing_is_amiss)
INVARIANTS: tuple[Invariant, ...] = (
    every_process_belongs_to_the_current_attempt,
    ready_engines_live,
    bystanders_live,
    no_gpu_is_shared,
    every_exit_has_one_incident,
    the_history_is_whole,
)


def looks(world: World) -> tuple[Callable[[], list[str]], ...]:
    """The cheap look first: whether it is at rest; then all the others."""

    def at_rest() -> list[str]:
        return [f"{one.__name__}: {wrong}" for one in AT_REST for wrong in one(world)]

    def held() -> list[str]:
        return [f"{one.__name__}: {wrong}" for one in INVARIANTS for wrong in one(world)]

    return at_rest, held
