"""``vllm-warden events``: what happened, and what happens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Annotated

import typer

from vllm_warden.api.client import Client, Json
from vllm_warden.cli.options import JsonOption, SocketOption, client_of, examples, objects
from vllm_warden.cli.render import harmless

FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")]
AfterOption = Annotated[
    int, typer.Option("--after", metavar="N", min=0, help="Only events with a higher number.")
]


def register(app: typer.Typer) -> None:
    epilog = examples("vllm-warden events --after 120", "vllm-warden events -f --json")
    app.command(epilog=epilog)(events)


def events(
    context: typer.Context,
    *,
    follow: FollowOption = False,
    after: AfterOption = 0,
    as_json: JsonOption = False,
    socket: SocketOption = None,
) -> None:
    """Print events, oldest first, one a line; with --json one object a line."""
    client = client_of(context, socket)
    try:
        for event in _follow(client, after) if follow else _listed(client, after):
            print(json.dumps(event) if as_json else event_line(event), flush=follow)
    except KeyboardInterrupt:
        raise typer.Exit from None


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
