"""Reads the settings file, lays the environment over it, and reports every mistake at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from vllm_warden.config.bare_values import DEPTH_MAX, bare_faults
from vllm_warden.config.environment import Override, lay_over, overrides
from vllm_warden.config.environment_file import read_environment_file
from vllm_warden.config.errors import ConfigurationError, ConfigurationInvalid
from vllm_warden.config.knob_bounds import knob_faults
from vllm_warden.config.lines import key_lines, line_of
from vllm_warden.config.refusals import (
    environment_refusals,
    instance_refusals,
    listening_conflicts,
)
from vllm_warden.config.settings import Configuration
from vllm_warden.config.wording import Fault, dotted, faults

DEFAULT_PATH = Path("/etc/vllm-warden/config.toml")

NO_FILE = "name a file that exists: vllm-warden check-config FILE, vllm-wardend --config FILE"

_POSITION = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def load(path: Path, environ: Mapping[str, str]) -> Configuration:
    """The settings of the file with ``WARDEN_...`` variables laid over them.

    Raises ConfigurationInvalid with every mistake in the text. What only the world can prove wrong
    (a missing directory, a taken port) is not looked at here; see ``config.world``.
    """
    text = _read(path)
    found = overrides(environ)
    document = lay_over(_parse(path, text), found)
    configuration: Configuration | None = None
    mistakes: list[Fault] = []
    try:
        configuration = Configuration.model_validate(document)
    except ValidationError as error:
        mistakes.extend(faults(error, document))
    mistakes.extend(_rules(document))
    placed = [_placed(fault, path, key_lines(text), found) for fault in _once_each(mistakes)]
    placed.extend(_environment_files(document))
    if placed or configuration is None:
        raise ConfigurationInvalid(tuple(sorted(placed, key=_in_file_order(path))))
    return configuration


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        reason, hint = "it is not UTF-8 text", ""
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = NO_FILE if isinstance(error, FileNotFoundError) else ""
    raise ConfigurationInvalid((ConfigurationError(str(path), "", None, reason, hint=hint),))


def _parse(path: Path, text: str) -> dict[str, object]:
    try:
        document = tomllib.loads(text)
        if _depth(document) <= DEPTH_MAX:
            return document
        reason = f"it is nested deeper than {DEPTH_MAX} tables"
    except tomllib.TOMLDecodeError as error:
        if text.startswith("\ufeff"):
            raise _unusable(path, _BYTE_ORDER_MARK) from None
        message = str(error)
        position = _POSITION.search(message)
        reason = _POSITION.sub("", message)
        line = int(position[1]) if position and position[1] else len(text.splitlines())
        column = int(position[2]) if position and position[2] else None
        mistake = ConfigurationError(
            str(path), "", None, f"it is no TOML: {reason[:1].lower()}{reason[1:]}",
            line=line, column=column,
        )  # fmt: skip
        raise ConfigurationInvalid((mistake,)) from None
    except ValueError:  # Python reads no number of more than 4,300 digits
        reason = "a number in it is too long to be one"
    except RecursionError:
        reason = f"it is nested deeper than {DEPTH_MAX} tables"
    raise _unusable(path, reason)


_BYTE_ORDER_MARK = "it begins with a byte order mark; save it as UTF-8 without one"


def _unusable(path: Path, reason: str) -> ConfigurationInvalid:
    return ConfigurationInvalid((ConfigurationError(str(path), "", None, reason),))


def _depth(document: object) -> int:
    """How deep tables and lists lie in each other, counted no further than one too many."""
    level: list[object] = [document]
    depth = 0
    while level and depth <= DEPTH_MAX:
        level = [one for each in level for one in _inside(each)]
        depth += 1
    return depth


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _instances(document: Mapping[str, object]) -> dict[str, dict[str, object]]:
    tables = document.get("instance")
    if not isinstance(tables, dict):
        return {}
    return {name: table for name, table in tables.items() if isinstance(table, dict)}


def _rules(document: Mapping[str, object]) -> Iterator[Fault]:
    for key, value in document.items():
        # pydantic-settings takes such keys for arguments of its own and says nothing.
        if key.startswith("_"):
            yield Fault((key,), value, "there is no such table")
    instances = _instances(document)
    for name, table in instances.items():
        yield from instance_refusals(name, table)
        yield from knob_faults(name, table)
        yield from _gpus_twice(name, table.get("gpus"))
    yield from listening_conflicts(instances)
    yield from bare_faults((), document)


def _gpus_twice(name: str, gpus: object) -> Iterator[Fault]:
    if not isinstance(gpus, list):
        return
    for position, gpu in enumerate(gpus):
        if gpu in gpus[:position]:
            yield Fault(("instance", name, "gpus", position), gpu, "this GPU is named twice")


def _environment_files(document: Mapping[str, object]) -> Iterator[ConfigurationError]:
    """Mistakes inside environment files that can be read; values in them are never repeated."""
    for name, table in _instances(document).items():
        written = table.get("environment_file")
        if not isinstance(written, str) or not written.startswith("/") or "\0" in written:
            continue
        held = read_environment_file(Path(written))
        key = f"instance.{name}.environment_file"
        for line in held.malformed:
            yield ConfigurationError(
                written, key, None, "this line is not of the form KEY=VALUE", line=line
            )
        port = table.get("port", 8000)
        api_port = port if isinstance(port, int) else None
        for fault in environment_refusals((), held.values, api_port):
            variable = str(fault.path[-1])
            yield ConfigurationError(written, variable, None, fault.reason, hint=fault.hint)


def _once_each(mistakes: list[Fault]) -> list[Fault]:
    """The models speak first; a rule does not repeat what they said about the same key."""
    by_path: dict[tuple[str | int, ...], Fault] = {}
    for fault in mistakes:
        by_path.setdefault(fault.path, fault)
    return list(by_path.values())


def _placed(
    fault: Fault,
    path: Path,
    lines: Mapping[tuple[str, ...], int],
    found: tuple[Override, ...],
) -> ConfigurationError:
    """The fault with the file and line, or the variable, that its value came from."""
    key = dotted(fault.path)
    parts = tuple(str(part) for part in fault.path)
    variable = next((o.variable for o in found if parts[: len(o.path)] == o.path), None)
    if variable is not None:
        return ConfigurationError(
            f"environment variable {variable}",
            key,
            fault.value,
            fault.reason,
            fault.allowed,
            fault.hint,
        )
    return ConfigurationError(
        str(path),
        key,
        fault.value,
        fault.reason,
        fault.allowed,
        fault.hint,
        line_of(dict(lines), parts),
    )


class _in_file_order:  # noqa: N801 -- used like a function
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __call__(self, error: ConfigurationError) -> tuple[bool, int, str]:
        return (error.file != self.path, error.line or 0, error.key)
