"""The command doctor: looks at what a diagnosis and a supervised engine depend on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from vllm_warden.cli.doctor.check import Check, State
from vllm_warden.cli.exit_codes import ExitCode
from vllm_warden.cli.options import examples, json_option
from vllm_warden.cli.render import Style, harmless, style_of_stdout, wrapped
from vllm_warden.config.errors import ConfigurationInvalid
from vllm_warden.config.load import DEFAULT_PATH, load
from vllm_warden.config.translate import translate

DETAILS_SHOWN = 10
"""Of one check, for people; they are as many as a host has shared memory files."""
_COLOURS = {State.OK: "green", State.WARN: "yellow", State.FAIL: "red"}


def register(app: click.Group) -> None:
    """Add the command to the program."""
    app.add_command(doctor)


@click.command(
    "doctor",
    epilog=examples(
        "vllm-warden doctor",
        "vllm-warden doctor --engine /opt/vllm/bin/vllm",
        "vllm-warden doctor --json | jq '.checks[] | select(.state != \"ok\")'",
    ),
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="PROGRAM",
    help="The engine's program, instead of those of the settings file; may be repeated.",
)
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=DEFAULT_PATH,
    show_default=True,
    help="Settings file whose instances' engines are looked at.",
)
@json_option
def doctor(*, engines: tuple[str, ...], path: Path, as_json: bool) -> None:
    """Check the engines' installations and the host; needs no daemon, runs no engine, offline.

    Looks up every text and function that the diagnosis relies on in the source of each installed
    vLLM, and lists what dead engines left on this host: orphaned processes, shared memory that
    nobody uses. Changes nothing. Exits 0 when no check failed (warnings included), 1 when one did.
    """
    from vllm_warden.cli.doctor.catalogue import check_catalogue  # noqa: PLC0415 - slow to import
    from vllm_warden.cli.doctor.leftovers import check_leftovers  # noqa: PLC0415 - the same

    checks = [check_catalogue(command) for command in _commands(engines, path)]
    checks.append(check_leftovers())
    failed = any(check.state is State.FAIL for check in checks)
    if as_json:
        shown = [check.to_document() for check in checks]
        click.echo(json.dumps({"schema": 1, "ok": not failed, "checks": shown}))
    else:
        click.echo("\n".join(_lines(checks)))
    sys.exit(ExitCode.NO if failed else ExitCode.OK)


def _commands(engines: Sequence[str], path: Path) -> list[tuple[str, ...]]:
    """Each engine once: those given, else those of the settings, else the vllm on the PATH."""
    if engines:
        return [(engine,) for engine in dict.fromkeys(engines)]
    if path == DEFAULT_PATH and not path.exists():
        return [("vllm",)]
    try:
        instances = translate(load(path, os.environ))
    except ConfigurationInvalid as invalid:
        for error in invalid.errors:
            click.echo(str(error), err=True)
        click.echo(f"  vllm-warden check-config {path} says more", err=True)
        sys.exit(ExitCode.USAGE)
    return list(dict.fromkeys(one.spec.command for one in instances)) or [("vllm",)]


def _lines(checks: Sequence[Check]) -> list[str]:
    style = style_of_stdout()
    return [line for check in checks for line in _check_lines(check, style)]


def _check_lines(check: Check, style: Style) -> list[str]:
    state = style.paint(f"{check.state:<4}", _COLOURS[check.state])
    lines = wrapped(harmless(check.summary), style, "      ", f"{state}  ")
    # one line that says "and 1 more" would take the place of that one
    cut = len(check.details) > DETAILS_SHOWN + 1
    for detail in check.details[:DETAILS_SHOWN] if cut else check.details:
        lines += wrapped(harmless(detail), style, "          ", "        ")
    if cut:
        more = f"and {len(check.details) - DETAILS_SHOWN} more; vllm-warden doctor --json lists all"
        lines += wrapped(more, style, "        ")
    if check.hint:
        lines += wrapped(check.hint, style, "      ")
    return lines
