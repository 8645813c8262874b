"""Whether the demo showed what it promises, from what was seen."""

from __future__ import annotations

from vllm_warden.cli.demo.state import DemoState, listed, part

Reason = str


def shortcomings(state: DemoState) -> list[Reason]:
    """Why the demo failed, empty when it showed everything."""
    found: list[Reason] = []
    diagnosed = diagnosis(state)
    if not diagnosed:
        found.append("no death of attempt 1 was diagnosed")
    elif (diagnosed.get("phase"), diagnosed.get("site")) != ("warmup", "sampler"):
        where = f"phase {diagnosed.get('phase')}, site {diagnosed.get('site')}"
        found.append(f"attempt 1 did not die in the sampler warm-up ({where})")
    if len(state.attempts) != 2:
        found.append(f"there were {len(state.attempts)} attempts, not two")
    elif not changes(state):
        found.append("the relaunch had unchanged settings")
    if state.completion is None:
        found.append("no completion was answered")
    return found


def diagnosis(state: DemoState) -> dict[str, object]:
    """Of the first death: the incident's, or the event's while there is no incident yet."""
    return part(state.incident or {}, "diagnosis") or state.diagnosed or {}


def decision(state: DemoState) -> dict[str, object]:
    return part(state.incident or {}, "decision") or state.decided or {}


def changes(state: DemoState) -> list[dict[str, object]]:
    """The settings that the decision moved: ``setting``, ``from``, ``to``."""
    return listed(decision(state), "changes")
