"""The command check-config: is this settings file right, and does the world fit it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from vllm_warden.cli.options import examples, json_option
from vllm_warden.cli.render import harmless
from vllm_warden.config.errors import ConfigurationInvalid
from vllm_warden.config.load import DEFAULT_PATH, load
from vllm_warden.config.settings import Configuration
from vllm_warden.config.translate import Translated, translate
from vllm_warden.config.world import (
    Obstacle,
    admin_uids,
    daemon_faults,
    engine_user,
    instance_faults,
)
from vllm_warden.core.plan.command_line import build_argv, printable
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec

_FINE, _WORLD_WARNS, _TEXT_WRONG = 0, 1, 2


def register(app: click.Group) -> None:
    """Add the command to the program."""
    app.add_command(check_config)


@click.command(
    "check-config",
    epilog=examples(
        "vllm-warden check-config",
        "vllm-warden check-config ./config.toml --show-commands",
        "vllm-warden check-config --json | jq .errors",
    ),
)
@click.argument("path", type=click.Path(path_type=Path), default=DEFAULT_PATH)
@json_option
@click.option("--show-commands", is_flag=True, help="Print what would be executed.")
def check_config(*, path: Path, as_json: bool, show_commands: bool) -> None:
    """Check a settings file: 0 it is fine, 2 its text is wrong, 1 only the world does not fit."""
    try:
        configuration = load(path, os.environ)
    except ConfigurationInvalid as invalid:
        _report_invalid(path, invalid, as_json=as_json)
        sys.exit(_TEXT_WRONG)
    instances = translate(configuration)
    faults, warnings = _world(configuration, instances)
    commands = {one.spec.name: _command(one.spec) for one in instances} if show_commands else None
    if as_json:
        click.echo(_document(path, instances, faults, warnings, commands))
    else:
        _print(path, instances, faults, warnings, commands)
    sys.exit(_WORLD_WARNS if faults or warnings else _FINE)


def _report_invalid(path: Path, invalid: ConfigurationInvalid, *, as_json: bool) -> None:
    if as_json:
        errors = [error.to_document() for error in invalid.errors]
        click.echo(json.dumps({"schema": 1, "file": str(path), "valid": False, "errors": errors}))
        return
    for error in invalid.errors:
        _say(str(error), err=True)
    count = len(invalid.errors)
    _say(f"{path}: {count} error{'s' if count > 1 else ''}; nothing was used", err=True)


def _world(
    configuration: Configuration, instances: tuple[Translated, ...]
) -> tuple[tuple[Obstacle, ...], tuple[str, ...]]:
    faults = [*daemon_faults(configuration.daemon)]
    warnings: list[str] = []
    for one in instances:
        faults.extend(instance_faults(one))
        if one.warning is not None:
            key = f"instance.{one.spec.name}.environment_file"
            warnings.append(f"{key} = {one.environment_file}: {one.warning}")
        _, as_root = engine_user(one.spec)
        if as_root is not None:
            warnings.append(as_root)
    _, unknown = admin_uids(configuration.api.admins)
    warnings.extend(f"api.admins: there is no user {name}, ignoring" for name in unknown)
    return tuple(faults), tuple(warnings)


def _command(spec: InstanceSpec) -> str:
    # Which switches the engine knows is asked at launch only; here every false becomes --no-x.
    return printable(build_argv(spec, spec.engine, EngineFacts()))


def _document(
    path: Path,
    instances: tuple[Translated, ...],
    faults: tuple[Obstacle, ...],
    warnings: tuple[str, ...],
    commands: dict[str, str] | None,
) -> str:
    document: dict[str, object] = {
        "schema": 1,
        "file": str(path),
        "valid": True,
        "instances": [one.spec.name for one in instances],
        "world": [
            {
                "kind": fault.kind,
                "key": fault.key,
                "value": fault.value,
                "reason": fault.reason,
                "hopeless": fault.hopeless,
                "hint": fault.hint,
            }
            for fault in faults
        ],
        "warnings": list(warnings),
    }
    if commands is not None:
        document["commands"] = commands
    return json.dumps(document)


def _print(
    path: Path,
    instances: tuple[Translated, ...],
    faults: tuple[Obstacle, ...],
    warnings: tuple[str, ...],
    commands: dict[str, str] | None,
) -> None:
    for name, command in (commands or {}).items():
        _say(f"{name}: {command}")
    names = ", ".join(one.spec.name for one in instances) or "no instances"
    _say(f"{path}: the text is fine ({names})")
    if faults:
        _say("what the world lacks now:", err=True)
    for fault in faults:
        answer = "would be failed" if fault.hopeless else "would wait"
        if fault.key.startswith("daemon."):
            answer = "the daemon would not start"
        _say(f"  {answer}: {fault}".replace("\n", "\n  "), err=True)
    for warning in warnings:
        _say(f"  warning: {warning}", err=True)


def _say(text: str, *, err: bool = False) -> None:
    """For people; what is wrong in a file, or in the name of one, may command a terminal."""
    click.echo(harmless(text), err=err)
