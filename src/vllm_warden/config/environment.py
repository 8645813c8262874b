"""Lays ``WARDEN_...`` variables over the settings file.

``WARDEN_DAEMON__SOCKET=/tmp/w.sock`` is ``[daemon] socket``; two underscores go one table deeper.
Names are case-insensitive and an instance's ``-`` is written ``_``:
``WARDEN_INSTANCE__MINIMAX_M25__PORT=8001``. Below ``environment`` the case is kept, because there
it is the name of a variable. A value is JSON where it can be read as JSON (``0.9``, ``true``,
``[0, 1]``) and text otherwise. The prefix is never ``VLLM_``: vLLM complains about variables with
that prefix which it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

PREFIX = "WARDEN_"
_DELIMITER = "__"
# Below these tables a key is spelled by somebody else, so its case carries meaning.
_CASE_KEPT_BELOW = "environment"
_INSTANCE_DEPTH = 2


@dataclass(frozen=True, slots=True)
class Override:
    """One variable: where its value goes."""

    variable: str
    path: tuple[str, ...]
    value: object


def overrides(environ: Mapping[str, str]) -> tuple[Override, ...]:
    """The overrides found in the environment, ordered by variable.

    Only names with a delimiter after the prefix count: ``WARDEN_SOCKET`` (an option of the client)
    is no setting.
    """
    return tuple(
        Override(name, _path(name), _value(environ[name]))
        for name in sorted(environ)
        if name.startswith(PREFIX) and _DELIMITER in name
    )


def lay_over(document: dict[str, object], found: tuple[Override, ...]) -> dict[str, object]:
    """A copy of the document with every override in its place; tables are made where missing."""
    merged = _copied(document)
    for override in found:
        table = merged
        for part in override.path[:-1]:
            inner = table.get(part)
            if not isinstance(inner, dict):
                inner = {}
                table[part] = inner
            table = inner
        table[override.path[-1]] = override.value
    return merged


def _path(name: str) -> tuple[str, ...]:
    raw = name.removeprefix(PREFIX).split(_DELIMITER)
    parts: list[str] = []
    for part in raw:
        if parts and parts[-1] == _CASE_KEPT_BELOW and len(parts) > _INSTANCE_DEPTH:
            parts.append(part)
        elif len(parts) == 1 and parts[0] == "instance":
            parts.append(part.lower().replace("_", "-"))
        else:
            parts.append(part.lower())
    return tuple(parts)


def _value(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return text if value is None else value


def _copied(table: Mapping[str, object]) -> dict[str, object]:
    return {
        key: _copied(value) if isinstance(value, dict) else value for key, value in table.items()
    }
