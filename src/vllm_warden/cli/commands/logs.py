"""``vllm-warden logs``: what the engine wrote, of any attempt."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import quote

import typer

from vllm_warden.api.client import Client, Json
from vllm_warden.cli.options import (
    JsonOption,
    OptionalNameArgument,
    SocketOption,
    client_of,
    examples,
    objects,
    only_instance,
)
from vllm_warden.cli.render import harmless

AttemptOption = Annotated[
    int | None,
    typer.Option("--attempt", metavar="N", min=1, help="This attempt; the newest otherwise."),
]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")]
LastOption = Annotated[
    int, typer.Option("--last", metavar="N", min=0, max=100_000, help="Lines from the end.")
]


def register(app: typer.Typer) -> None:
    epilog = examples(
        "vllm-warden logs minimax-m25 -f",
        "vllm-warden logs minimax-m25 --attempt 1 --last 2000 | less",
    )
    app.command(epilog=epilog)(logs)


def logs(
    context: typer.Context,
    *,
    name: OptionalNameArgument = None,
    attempt: AttemptOption = None,
    follow: FollowOption = False,
    last: LastOption = 200,
    as_json: JsonOption = False,
    socket: SocketOption = None,
) -> None:
    """Print the engine's own output, redacted; with --json one object a line.

    NAME may be left out when there is only one instance.
    """
    client = client_of(context, socket)
    path = f"/v1/instances/{quote(only_instance(client, name), safe='')}/logs"
    query: Json = {"last": last}
    if attempt is not None:
        query["attempt"] = attempt
    try:
        for line in _follow(client, path, query) if follow else _listed(client, path, query):
            print(json.dumps(line) if as_json else log_line(line), flush=follow)
    except KeyboardInterrupt:
        raise typer.Exit from None


def log_line(line: Json) -> str:
    if "dropped" in line:
        return f"({line['dropped']} lines left out: this reader was too slow)"
    return harmless(str(line["text"]))


def _listed(client: Client, path: str, query: Json) -> Iterable[Json]:
    return objects(client.get(path, query), "lines")


def _follow(client: Client, path: str, query: Json) -> Iterable[Json]:
    for line in client.stream(path, {**query, "follow": 1}):
        if line is not None:
            yield line
