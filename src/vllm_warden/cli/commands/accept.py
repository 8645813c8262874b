"""``vllm-warden accept``: the settings in force become the asked ones, in the settings file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import cast

import click

from vllm_warden.api.client import ApiError, Client, DaemonUnreachable, Json
from vllm_warden.cli.exit_codes import ExitCode
from vllm_warden.cli.options import (
    client_of,
    examples,
    instance_path,
    json_option,
    name_argument,
    objects,
    socket_option,
)
from vllm_warden.cli.render import harmless, value
from vllm_warden.core.model import SettingValue


def register(app: click.Group) -> None:
    app.add_command(accept)


@click.command(
    short_help="Make the settings in force the asked ones.",
    epilog=examples(
        "vllm-warden accept minimax-m25",
        "vllm-warden accept minimax-m25 --write",
    ),
)
@name_argument
@click.option("--write", is_flag=True, help="Change the settings file, comments kept.")
@json_option
@socket_option
def accept(*, name: str, write: bool, as_json: bool, socket: str | None) -> None:
    """Print the change to the settings file that makes the settings in force the asked ones.

    With --write the file is changed: nothing in it but these options, and only if it is still
    as the daemon loaded it. Nothing is relaunched for it. Exit code 1: there is nothing to accept.
    """
    from vllm_warden.config.edit import EditRefusedError  # noqa: PLC0415 - other commands do without

    client = client_of(socket)
    changed = [
        each
        for each in objects(client.get(instance_path(name)), "settings")
        if each["asked"] != each["in_force"]
    ]
    daemon = cast("Json", client.get("/v1/status")["daemon"])
    file = daemon.get("config")
    if not changed:
        _finish(name, file, [], None, as_json=as_json)
        raise SystemExit(ExitCode.NO)
    event = None
    if write:
        try:
            event = _write(client, name, daemon, changed)
        except (EditRefusedError, OSError) as error:
            print(f"vllm-warden: {harmless(_reason(error, file))}", file=sys.stderr)
            raise SystemExit(ExitCode.REFUSED) from None
    _finish(name, file, changed, event, as_json=as_json)


def _write(client: Client, name: str, daemon: Json, changed: list[Json]) -> object:
    """Change the file, then tell the daemon; what it refuses is undone."""
    from vllm_warden.config import edit  # noqa: PLC0415 - only needed here

    file, digest = daemon.get("config"), str(daemon.get("config_digest"))
    if not isinstance(file, str):
        raise edit.EditRefusedError(
            "cannot edit the settings file: this daemon has none; change its command line instead"
        )
    path = Path(file)
    options = {str(each["name"]): each["in_force"] for each in changed}
    before = edit.read_text(path, digest)
    after = edit.with_options(before, name, cast("dict[str, SettingValue]", options))
    edit.replace_file(path, digest, after)
    try:
        return client.post(f"{instance_path(name)}/accept")["event"]
    except ApiError:
        edit.replace_file(path, edit.digest_of(after.encode()), before)
        raise
    except DaemonUnreachable as error:
        # it may have taken them over before it went: the file it will read must not forget them
        raise DaemonUnreachable(f"{error}; {path} is changed, and read at its next start") from None


def _finish(name: str, file: object, changed: list[Json], event: object, *, as_json: bool) -> None:
    if as_json:
        document = {
            "instance": name,
            "file": file,
            "changes": [
                {"setting": each["name"], "from": each["asked"], "to": each["in_force"]}
                for each in changed
            ],
            "written": event is not None,
            "event": event,
        }
        print(json.dumps(document, indent=2))
        return
    if not changed:
        print(f"{name} has the settings that were asked for: nothing to accept")
        return
    print("\n".join(_change_lines(name, file, changed)))
    if event is not None:
        print(f"\nwritten to {file}; nothing is relaunched for it")
    elif isinstance(file, str):
        print(f"\nvllm-warden accept {name} --write puts this into {file}")


def _change_lines(name: str, file: object, changed: list[Json]) -> list[str]:
    from vllm_warden.config.edit import EditRefusedError, toml_value  # noqa: PLC0415 - only needed here

    lines = [f"# in {file}" if isinstance(file, str) else "# as a settings file has it"]
    lines.append(f"[instance.{name}.engine]")
    for each in changed:
        in_force = cast("SettingValue", each["in_force"])
        try:
            written = toml_value(in_force)
        except EditRefusedError:
            written = json.dumps(in_force)
        was = "not set" if each["asked"] is None else f"was {harmless(value(each['asked']))}"
        lines.append(f"{each['name']} = {harmless(written)}  # {was}")
    return lines


def _reason(error: Exception, file: object) -> str:
    if isinstance(error, OSError):
        who = f"uid {os.geteuid()}"
        return f"cannot edit {file}: {(error.strerror or str(error)).lower()} ({who})"
    return str(error)
