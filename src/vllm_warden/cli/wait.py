"""Waiting for a change: follow events, print them as progress, stop when the state is reached."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote

from vllm_warden.api.client import Client, DaemonUnreachable, Json
from vllm_warden.cli.options import objects

STUCK = frozenset({"held", "failed"})
SETTLE_SECONDS = 3.0
"""An end state from before the change counts only once the daemon had this long to leave it."""

POLL_SECONDS = 1.0

SAME_MOMENT_SECONDS = 0.5
"""The daemon derives ``since`` from the boot clock each time, so it differs a little."""

UNREACHABLE_SECONDS = 10.0
"""How long a daemon may be away (a restart, an upgrade) before waiting for it ends."""

Outcome = Literal["reached", "went-back", "failed", "late"]
"""``went-back``: the state is reached, with other settings than those that were to be tried."""


@dataclass(frozen=True, slots=True)
class Goal:
    """The state to reach; ``fresh`` asks for a newer attempt than the one before (restart).

    ``tried`` are the settings of a launch that is tried once, empty for the asked ones, None where
    nothing is tried.
    """

    state: str
    fresh: bool = False
    tried: Mapping[str, object] | None = None


def wait_for(
    client: Client,
    before: Json,
    event: int,
    goal: Goal,
    *,
    timeout_seconds: float | None,
    tell: Callable[[str], None],
) -> tuple[Outcome, Json]:
    """Follow events after the change until the goal is reached, missed, or time is over.

    Raises DaemonUnreachable when the daemon goes away and stays away.
    """
    name = str(before["name"])
    started = time.monotonic()
    for text, now in _progress(client, name, event):
        if text is not None:
            tell(text)
        outcome = judge(before, now, goal, time.monotonic() - started)
        if outcome is not None:
            return outcome, now
        if timeout_seconds is not None and time.monotonic() - started >= timeout_seconds:
            return "late", now
    raise AssertionError  # _progress never ends by itself


def judge(before: Json, now: Json, goal: Goal, waited_seconds: float) -> Outcome | None:
    """None while it is still undecided."""
    state = now["state"]
    newer = now["attempt"] != before["attempt"]
    moved = newer or state != before["state"] or not _same_moment(now["since"], before["since"])
    settled = moved or waited_seconds >= SETTLE_SECONDS
    if state == goal.state and (newer or not goal.fresh):
        return "reached" if goal.tried is None or _is_tried(now, goal.tried) else "went-back"
    if goal.state == "ready" and settled and (state in STUCK or _stopped_by_someone(now)):
        return "failed"
    return None


def _is_tried(now: Json, tried: Mapping[str, object]) -> bool:
    """What runs is the trial itself, or with other settings nobody could tell it from it."""
    if now.get("trial"):
        return True
    if not tried:
        return not now.get("degraded")
    in_force = {each["name"]: each["in_force"] for each in objects(now, "settings")}
    return all(name in in_force and in_force[name] == value for name, value in tried.items())


def _same_moment(one: object, other: object) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) < SAME_MOMENT_SECONDS
    return one == other


def _stopped_by_someone(now: Json) -> bool:
    return now["state"] == "stopped" and now["wanted"] == "stopped"


def _progress(client: Client, name: str, after: int) -> Iterator[tuple[str | None, Json]]:
    """Texts of the instance's events, each with the instance as it is then.

    The text is None at the start, after a reconnect, and whenever nothing happens for a while.
    """
    path = f"/v1/instances/{quote(name, safe='')}"
    missing_since: float | None = None
    while True:
        try:
            yield None, client.get(path)
            missing_since = None
            query = {"after": after, "follow": 1}
            for document in client.stream("/v1/events", query, POLL_SECONDS):
                number = document.get("number") if document else None
                after = number if isinstance(number, int) else after
                if document is None or "text" not in document:
                    yield None, client.get(path)
                elif document.get("instance") == name:
                    yield str(document["text"]), client.get(path)
        except DaemonUnreachable:  # it may be restarting; engines survive that
            missing_since = missing_since or time.monotonic()
            if time.monotonic() - missing_since > UNREACHABLE_SECONDS:
                raise
        time.sleep(0.2)
