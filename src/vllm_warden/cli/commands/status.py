"""``vllm-warden status``: what runs, and what does not."""

from __future__ import annotations

import json
import time
from typing import cast
from urllib.parse import quote

import typer

from vllm_warden.api.schema import InstanceDetailDocument, StatusDocument
from vllm_warden.cli.options import (
    JsonOption,
    OptionalNameArgument,
    SocketOption,
    client_of,
    examples,
)
from vllm_warden.cli.render import style_of_stdout


def register(app: typer.Typer) -> None:
    epilog = examples(
        "vllm-warden status",
        "vllm-warden status minimax-m25",
        "vllm-warden status --json | jq '.instances[] | {name, state}'",
    )
    app.command(epilog=epilog)(status)


def status(
    context: typer.Context,
    *,
    name: OptionalNameArgument = None,
    as_json: JsonOption = False,
    socket: SocketOption = None,
) -> None:
    """Show what runs: state, attempt, GPUs, memory, what differs from what was asked.

    What needs a person comes first.
    """
    client = client_of(context, socket)
    document = client.get(f"/v1/instances/{quote(name, safe='')}" if name else "/v1/status")
    if as_json:
        print(json.dumps(document, indent=2))
        return
    print("\n".join(_lines(document, one=name is not None)))


def _lines(document: dict[str, object], *, one: bool) -> list[str]:
    style, now = style_of_stdout(), time.time()
    if one:
        from vllm_warden.cli.detail import detail  # noqa: PLC0415 - not for the overview

        return detail(cast("InstanceDetailDocument", document), now, style)
    from vllm_warden.cli.overview import overview  # noqa: PLC0415 - not with --json

    return overview(cast("StatusDocument", document), now, style)
