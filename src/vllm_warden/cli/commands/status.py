"""``vllm-warden status``: what runs, and what does not."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, cast

import click

from vllm_warden.api.client import Json
from vllm_warden.cli.options import (
    client_of,
    examples,
    instance_path,
    json_option,
    optional_name_argument,
    socket_option,
)
from vllm_warden.cli.render import style_of_stdout

if TYPE_CHECKING:  # building the TypedDicts costs milliseconds that `status` can do without
    from vllm_warden.api.schema import InstanceDetailDocument, StatusDocument


def register(app: click.Group) -> None:
    app.add_command(status)


@click.command(
    short_help="What runs, and what does not.",
    epilog=examples(
        "vllm-warden status",
        "vllm-warden status minimax-m25",
        "vllm-warden status --json | jq '.instances[] | {name, state}'",
    ),
)
@optional_name_argument
@json_option
@socket_option
def status(
    *,
    name: str | None,
    as_json: bool,
    socket: str | None,
) -> None:
    """Show what runs: state, attempt, GPUs, memory, what differs from what was asked.

    What needs a person comes first.
    """
    client = client_of(socket)
    document = client.get(instance_path(name) if name else "/v1/status")
    if as_json:
        print(json.dumps(document, indent=2))
        return
    print("\n".join(_lines(document, client.get("/v1/status") if name else None)))


def _lines(document: Json, whole: Json | None) -> list[str]:
    """The overview, or one instance below the conditions of the whole."""
    from vllm_warden.cli.overview import condition_lines, overview  # noqa: PLC0415 - not with --json

    style, now = style_of_stdout(), time.time()
    if whole is None:
        return overview(cast("StatusDocument", document), now, style)
    from vllm_warden.cli.detail import detail  # noqa: PLC0415 - not for the overview

    conditions = condition_lines(cast("StatusDocument", whole), style)
    lines = detail(cast("InstanceDetailDocument", document), now, style)
    return [*conditions, *([""] if conditions else []), *lines]
