"""Turns pydantic's errors into ours: the key as TOML spells it, the value, and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vllm_warden.config.settings import (
    KNOBS,
    AdaptSettings,
    ApiSettings,
    Configuration,
    DaemonSettings,
    InstanceSettings,
    KnobRange,
    RestartSettings,
)

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake before anyone has looked up the file and line of its path."""

    path: Path
    value: object
    reason: str
    allowed: str = ""
    hint: str = ""


_ALLOWED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "finite_number": "a finite number",
}
_BOUNDS = {
    "greater_than_equal": "at least {ge:g}",
    "greater_than": "more than {gt:g}",
    "less_than_equal": "at most {le:g}",
    "string_too_short": "text that is not empty",
    "string_too_long": "at most {max_length} characters",
    "too_short": "a list of at least {min_length}",
}
_PATTERNS = {
    r"^/": "an absolute path",
    r"^[a-z0-9-]{1,32}$": "1 to 32 characters of a-z, 0-9 and -",
    r"^GPU-[0-9A-Fa-f-]+$": "an NVML index or a UUID that begins with GPU-",
}
_TABLES: Mapping[str, type[BaseModel]] = {
    "": Configuration,
    "daemon": DaemonSettings,
    "api": ApiSettings,
    "instance.*": InstanceSettings,
    "instance.*.adapt": AdaptSettings,
    "instance.*.restart": RestartSettings,
}


def faults(error: ValidationError, document: Mapping[str, object]) -> tuple[Fault, ...]:
    """One fault a key, in pydantic's order; the branches of a union are joined into one."""
    by_path: dict[Path, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        by_path.setdefault(_path(detail, document), []).append(detail)
    return tuple(_joined(path, details) for path, details in by_path.items())


def _joined(path: Path, details: list[ErrorDetails]) -> Fault:
    # A branch that liked the type and not the value says more than one that disliked the type.
    close = [detail for detail in details if not detail["type"].endswith("_type")] or details
    branches = [_fault(path, detail) for detail in close]
    allowed = dict.fromkeys(fault.allowed for fault in branches if fault.allowed)
    return replace(branches[0], allowed=" or ".join(allowed))


def dotted(path: Iterable[object]) -> str:
    """The path as TOML writes it, list positions in brackets: ``instance.a.gpus[1]``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else str(part)
    return text


def _path(detail: ErrorDetails, document: Mapping[str, object]) -> Path:
    """The location without pydantic's own words (union branches, ``[key]``)."""
    path: list[str | int] = []
    node: object = document
    location = detail["loc"]
    for position, part in enumerate(location):
        is_last = position == len(location) - 1
        inner = _inner(node, part)
        if inner is not None:
            node = inner
        elif not (is_last and detail["type"] == "missing"):
            continue
        path.append(part)
    return tuple(path)


def _inner(node: object, part: str | int) -> object | None:
    # TOML has no null, so None means that there is no such part.
    if isinstance(node, dict):
        return cast("object", node.get(part))
    if isinstance(node, list) and isinstance(part, int) and part < len(node):
        return cast("object", node[part])
    return None


def _fault(path: Path, detail: ErrorDetails) -> Fault:
    kind = detail["type"]
    context = detail.get("ctx", {})
    value = detail["input"]
    if kind == "missing":
        hint = "an empty list means a CPU engine" if path[-1] == "gpus" else ""
        return Fault(path, None, "it is required", hint=hint)
    if kind == "extra_forbidden":
        return Fault(path, None, "there is no such key", hint=_unknown_hint(path))
    if kind in _ALLOWED:
        is_knob = kind == "bool_type" and path[-1] in KNOBS
        allowed = "true, false or a table with min and max" if is_knob else _ALLOWED[kind]
        # What was meant as an environment variable may be a secret.
        visible = None if "environment" in path else value
        return Fault(path, visible, "wrong type", allowed, _type_hint(path, value))
    if kind == "literal_error":
        return Fault(path, value, "unknown choice", str(context["expected"]).replace("'", '"'))
    if kind == "string_pattern_mismatch":
        allowed = _PATTERNS.get(str(context["pattern"]), f"text like {context['pattern']}")
        return Fault(path, value, "wrong form", allowed, _form_hint(value))
    allowed = _both_bounds(path) or _bound(kind, context, detail["msg"])
    return Fault(path, value, "out of bounds", allowed)


def _both_bounds(path: Path) -> str:
    """Of a number that has two, whichever it was that a value crossed."""
    field = _model(path[:-1]).model_fields.get(str(path[-1]))
    bounds: dict[str, float] = {}
    for each in field.metadata if field else ():
        for end in ("ge", "gt", "le"):
            if (value := getattr(each, end, None)) is not None:
                bounds[end] = value
    if "le" not in bounds or len(bounds) < 2:
        return ""
    most = f"{bounds['le']:.10g}"
    return (
        f"{bounds['ge']:g} to {most}"
        if "ge" in bounds
        else f"more than {bounds['gt']:g}, at most {most}"
    )


def _bound(kind: str, context: Mapping[str, object], message: str) -> str:
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**context)
    return message[:1].lower() + message[1:]


def _type_hint(path: Path, value: object) -> str:
    if path[-1] == "command" and isinstance(value, str):
        return 'write the words as a list: ["vllm", "serve"]'
    if isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdigit():
        return f"write it without quotes: {value.strip()}"
    if "environment" in path and isinstance(value, bool | int | float):
        return "write it in quotes"
    return ""


def _form_hint(value: object) -> str:
    if isinstance(value, str) and value.startswith("MIG-"):
        return "MIG slices are not supported: vLLM and NVML count them differently"
    return ""


def _unknown_hint(path: Path) -> str:
    table, key = path[:-1], str(path[-1])
    known = tuple(_model(table).model_fields)
    plain = key.replace("-", "_").lower()
    close = difflib.get_close_matches(plain, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {dotted((*table, close[0]))}?"
    if len(table) == 2:  # [instance.NAME]
        return f"an option of vllm serve belongs into [{dotted(table)}.engine]"
    return f"known keys here: {', '.join(sorted(known))}"


def _model(table: Path) -> type[BaseModel]:
    parts = [str(part) for part in table]
    if len(parts) > 1 and parts[0] == "instance":
        parts[1] = "*"
    return _TABLES.get(".".join(parts), KnobRange)
