"""Options that many commands share, and the client made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast
from urllib.parse import quote

import click

from vllm_warden.api.client import Client, Json
from vllm_warden.cli.find_socket import find_socket

SOCKET_ENVIRONMENT = "WARDEN_SOCKET"

socket_option = click.option(
    "--socket", metavar="PATH", help="The daemon's socket; also before the command."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, stable and versioned."
)
name_argument = click.argument("name")
optional_name_argument = click.argument("name", required=False)


@dataclass(frozen=True, slots=True)
class Globals:
    """What was given before the command."""

    socket: str | None = None


def client_of(socket: str | None) -> Client:
    """The socket named after the command wins over the one before it, then the environment.

    Where none is named, the one that lives is found.
    """
    before = click.get_current_context().find_object(Globals)
    return Client(socket or (before and before.socket) or find_socket())


def instance_path(name: str) -> str:
    """Raises click.UsageError for what would be another path of the API."""
    if not name or "/" in name:
        raise click.UsageError(
            f"cannot find the instance {name!r}: a name has 1 to 32 characters of a-z, 0-9 and -; "
            "vllm-warden status lists them"
        )
    return f"/v1/instances/{quote(name, safe='')}"


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
        raise click.UsageError("no instance is configured")
    raise click.UsageError(f"which instance? there are {', '.join(names)}")
