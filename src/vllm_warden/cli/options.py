"""Options that many commands share, and the client made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

import typer

from vllm_warden.api.client import DEFAULT_SOCKET, Client, Json

SOCKET_ENVIRONMENT = "WARDEN_SOCKET"

SocketOption = Annotated[
    str | None,
    typer.Option("--socket", metavar="PATH", help="The daemon's socket; also before the command."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, stable and versioned.")]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="The instance.")
]
OptionalNameArgument = Annotated[
    str | None, typer.Argument(metavar="[NAME]", show_default=False, help="One instance only.")
]


@dataclass(frozen=True, slots=True)
class Globals:
    """What was given before the command."""

    socket: str | None = None


def client_of(context: typer.Context, socket: str | None) -> Client:
    """The socket named after the command wins over the one before it, then the environment."""
    before = context.obj.socket if isinstance(context.obj, Globals) else None
    return Client(socket or before or DEFAULT_SOCKET)


def examples(*lines: str) -> str:
    """An epilog that click does not rewrap (a line with only a backspace stands before it)."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def objects(document: Json, member: str) -> list[Json]:
    """A list of JSON objects inside a document, empty where there is none."""
    found = document.get(member)
    return cast("list[Json]", found) if isinstance(found, list) else []


def only_instance(client: Client, name: str | None) -> str:
    """The named instance, or the only one there is. Exits 2 when that is not clear."""
    if name is not None:
        return name
    names = [str(each["name"]) for each in objects(client.get("/v1/instances"), "instances")]
    if len(names) == 1:
        return names[0]
    if not names:
        raise typer.BadParameter("no instance is configured")
    raise typer.BadParameter(f"which one? there are {', '.join(names)}")
