"""Tells what led to a broken invariant: the daemon's own words, then each instance in short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.chaos.world import World
from vllm_warden.api.client import ApiError, DaemonUnreachable

OUTPUT_CHARACTERS = 40_000


def story(world: World) -> str:
    output = world.warden.output.read_text(errors="replace")[-OUTPUT_CHARACTERS:]
    try:
        return "\n".join([output, *_instances(world)])
    except (DaemonUnreachable, ApiError) as error:
        return f"{output}\nthe daemon cannot be asked: {error}"


def _instances(world: World) -> Iterator[str]:
    yield from (f"condition: {one}" for one in world.conditions())
    groups = world.groups()
    for name, one in world.status().items():
        yield f"{name} is {one['state']}, wanted {one['wanted']}: {one['reason']}"
        yield f"  lives: {groups.get(name, {})}; reported: {one['pids']}"
        document: Any = world.warden.client.get(f"/v1/instances/{name}")
        for attempt in document["attempts"]:
            yield f"  attempt {attempt['number']}: {attempt['outcome']}, {attempt['phase']}"
        listed: Any = world.warden.client.get(f"/v1/instances/{name}/incidents?limit=20")
        for short in listed["incidents"]:
            incident: Any = world.warden.client.get(f"/v1/incidents/{short['number']}")
            attempts = [incident["attempt"], *(each["attempt"] for each in incident["further"])]
            yield f"  incident {incident['number']}: attempts {attempts}"
