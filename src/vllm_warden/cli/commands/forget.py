"""``vllm-warden forget``: what was learned about an instance is no longer used."""

from __future__ import annotations

import json

import click

from vllm_warden.cli.options import (
    client_of,
    examples,
    instance_path,
    json_option,
    name_argument,
    socket_option,
)


def register(app: click.Group) -> None:
    app.add_command(forget)


@click.command(
    short_help="Forget the learned settings of an instance.",
    epilog=examples(
        "vllm-warden forget minimax-m25",
        "vllm-warden forget minimax-m25 && vllm-warden restart minimax-m25",
    ),
)
@name_argument
@json_option
@socket_option
def forget(*, name: str, as_json: bool, socket: str | None) -> None:
    """Forget which settings of an instance were learned, proven or known to be bad.

    A running engine keeps what it runs with; the next launch uses the asked settings. The restart
    budget stays as it is. To keep a way back, use restart --retry-capacity instead.
    """
    event = client_of(socket).post(f"{instance_path(name)}/forget")["event"]
    accepted = f"{name}: learned settings forgotten; the next launch uses the asked ones"
    print(json.dumps({"event": event}) if as_json else accepted)
