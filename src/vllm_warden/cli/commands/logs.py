"""``vllm-warden logs``: what the engine wrote, of any attempt."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

import click

from vllm_warden.api.client import Client, Json
from vllm_warden.cli.options import (
    client_of,
    examples,
    instance_path,
    json_option,
    objects,
    only_instance,
    optional_name_argument,
    socket_option,
)
from vllm_warden.cli.render import harmless


def register(app: click.Group) -> None:
    app.add_command(logs)


@click.command(
    short_help="What the engine wrote, of any attempt.",
    epilog=examples(
        "vllm-warden logs minimax-m25 -f",
        "vllm-warden logs minimax-m25 --attempt 1 --last 2000 | less",
    ),
)
@optional_name_argument
@click.option(
    "--attempt",
    type=click.IntRange(min=1),
    metavar="N",
    help="This attempt; the newest otherwise.",
)
@click.option("--follow", "-f", is_flag=True, help="Go on until Ctrl-C.")
@click.option(
    "--last",
    type=click.IntRange(1, 100_000),
    default=200,
    metavar="N",
    help="Lines from the end.",
    show_default=True,
)
@json_option
@socket_option
def logs(
    *,
    name: str | None,
    attempt: int | None,
    follow: bool,
    last: int,
    as_json: bool,
    socket: str | None,
) -> None:
    """Print the engine's own output, redacted; with --json one object a line.

    NAME may be left out when there is only one instance.
    """
    client = client_of(socket)
    path = f"{instance_path(only_instance(client, name))}/logs"
    query: Json = {"last": last}
    if attempt is not None:
        query["attempt"] = attempt
    try:
        for line in _follow(client, path, query) if follow else _listed(client, path, query):
            print(json.dumps(line) if as_json else log_line(line), flush=follow)
    except KeyboardInterrupt:
        return


def log_line(line: Json) -> str:
    if "dropped" in line:
        return f"({line['dropped']} lines left out: this reader was too slow)"
    return harmless(str(line["text"]))


def _listed(client: Client, path: str, query: Json) -> Iterable[Json]:
    answer = client.get(path, query)
    left_out = answer.get("left_out")
    if isinstance(left_out, int) and left_out > 0:
        print(f"({left_out} lines left out: not kept, or too much for one answer)", file=sys.stderr)
    return objects(answer, "lines")


def _follow(client: Client, path: str, query: Json) -> Iterable[Json]:
    for line in client.stream(path, {**query, "follow": 1}):
        if line is not None:
            yield line
