"""``vllm-warden why``: why an instance is in its state, with the lines that prove it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, cast

import click

from vllm_warden.api.client import Client, Json
from vllm_warden.cli.options import (
    client_of,
    examples,
    instance_path,
    json_option,
    objects,
    optional_name_argument,
    socket_option,
)
from vllm_warden.cli.overview import condition_lines
from vllm_warden.cli.render import style_of_stdout
from vllm_warden.cli.story import story

if TYPE_CHECKING:  # building the TypedDicts costs milliseconds that `status` can do without
    from vllm_warden.api.schema import InstanceDetailDocument, StatusDocument


def register(app: click.Group) -> None:
    app.add_command(why)


@click.command(
    short_help="Why an instance is in its state, with the proof.",
    epilog=examples("vllm-warden why", "vllm-warden why minimax-m25 --json"),
)
@optional_name_argument
@json_option
@socket_option
def why(
    *,
    name: str | None,
    as_json: bool,
    socket: str | None,
) -> None:
    """Say why an instance is in its state: cause, proof, decision, price, what was tried.

    Without NAME: every instance that does not serve as asked.
    """
    client = client_of(socket)
    documents = _documents(client, name)
    if as_json:
        print(json.dumps(documents[0] if name else {"instances": documents}, indent=2))
        return
    style, now = style_of_stdout(), time.time()
    whole = cast("StatusDocument", client.get("/v1/status"))
    conditions = condition_lines(whole, style)
    print("".join(f"{line}\n" for line in conditions), end="\n" if conditions else "")
    blocks = [
        "\n".join(story(cast("InstanceDetailDocument", each), now, style)) for each in documents
    ]
    print("\n\n".join(blocks) or "every instance serves as asked")


def _documents(client: Client, name: str | None) -> list[Json]:
    if name is not None:
        return [client.get(instance_path(name))]
    entries = objects(client.get("/v1/instances"), "instances")
    chosen = entries if len(entries) == 1 else [each for each in entries if _is_odd(each)]
    return [client.get(f"/v1/instances/{each['name']}") for each in chosen]


def _is_odd(entry: Json) -> bool:
    on_purpose = entry["state"] == "stopped" and entry["wanted"] == "stopped"
    warned = entry["degraded"] or entry.get("foreseen")
    return bool(warned) or (entry["state"] != "ready" and not on_purpose)
