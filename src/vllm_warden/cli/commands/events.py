"""``vllm-warden events``: what happened, and what happens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import click

from vllm_warden.api.client import Client, Json
from vllm_warden.cli.options import client_of, examples, json_option, objects, socket_option
from vllm_warden.cli.render import harmless


def register(app: click.Group) -> None:
    app.add_command(events)


@click.command(
    short_help="What happened, and what happens.",
    epilog=examples("vllm-warden events --after 120", "vllm-warden events -f --json"),
)
@click.option("--follow", "-f", is_flag=True, help="Go on until Ctrl-C.")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Only events with a higher number.",
)
@json_option
@socket_option
def events(
    *,
    follow: bool,
    after: int,
    as_json: bool,
    socket: str | None,
) -> None:
    """Print events, oldest first, one a line; with --json one object a line."""
    client = client_of(socket)
    try:
        for event in _follow(client, after) if follow else _listed(client, after):
            print(json.dumps(event) if as_json else event_line(event), flush=follow)
    except KeyboardInterrupt:
        return


def event_line(event: Json) -> str:
    """Number, local time, instance, sentence."""
    if "dropped" in event:
        return f"({event['dropped']} events left out: this reader was too slow)"
    at = event.get("at")
    when = time.strftime("%m-%d %H:%M:%S", time.localtime(at if isinstance(at, int | float) else 0))
    instance = f"{event['instance']}: " if event.get("instance") else ""
    return f"{event['number']:>6}  {when}  {instance}{harmless(str(event['text']))}"


def _listed(client: Client, after: int) -> Iterable[Json]:
    while page := objects(client.get("/v1/events", {"after": after}), "events"):
        yield from page
        last = page[-1]["number"]
        after = last if isinstance(last, int) else after + len(page)


def _follow(client: Client, after: int) -> Iterable[Json]:
    for event in client.stream("/v1/events", {"after": after, "follow": 1}):
        if event is not None:
            yield event
