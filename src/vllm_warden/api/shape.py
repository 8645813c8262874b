"""TypedDicts at run time: where a document departs from its type, and the type as JSON Schema."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints

_JSON_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}


def mismatches(value: object, expected: Any, where: str = "$") -> Iterator[str]:
    """Yield one sentence for each place where a JSON value is not of the expected type."""
    origin = get_origin(expected)
    if expected is object:
        return
    if origin is NotRequired:
        yield from mismatches(value, get_args(expected)[0], where)
    elif origin in (Union, types.UnionType):
        if all(any(True for _ in mismatches(value, each)) for each in get_args(expected)):
            yield f"{where} is {value!r}, expected {expected}"
    elif typing.is_typeddict(expected):
        yield from _object_mismatches(value, expected, where)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{where} is {value!r}, expected a list"
            return
        for index, item in enumerate(value):
            yield from mismatches(item, get_args(expected)[0], f"{where}[{index}]")
    elif origin is dict:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            yield f"{where} is {value!r}, expected an object with string keys"
            return
        for key, item in value.items():
            yield from mismatches(item, get_args(expected)[1], f"{where}.{key}")
    elif not _is_scalar(value, expected):
        yield f"{where} is {value!r}, expected {getattr(expected, '__name__', expected)}"


def json_schema(expected: Any) -> dict[str, object]:  # noqa: PLR0911 - one return a kind of type
    """The type as a JSON Schema (2020-12) without references."""
    origin = get_origin(expected)
    if expected is object:
        return {}
    if origin is NotRequired:
        return json_schema(get_args(expected)[0])
    if origin in (Union, types.UnionType):
        return {"anyOf": [json_schema(each) for each in get_args(expected)]}
    if typing.is_typeddict(expected):
        hints = get_type_hints(expected, include_extras=True)
        return {
            "type": "object",
            "properties": {name: json_schema(hint) for name, hint in hints.items()},
            "required": sorted(_required(hints)),
        }
    if origin is list:
        return {"type": "array", "items": json_schema(get_args(expected)[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": json_schema(get_args(expected)[1])}
    return {"type": "null" if expected is type(None) else _JSON_NAMES[expected]}


def _object_mismatches(value: object, expected: Any, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where} is {value!r}, expected an object"
        return
    hints = get_type_hints(expected, include_extras=True)
    for name in sorted(_required(hints) - value.keys()):
        yield f"{where}.{name} is missing"
    for name in value:
        if name not in hints:
            yield f"{where}.{name} is not part of {expected.__name__}"
            continue
        yield from mismatches(value[name], hints[name], f"{where}.{name}")


def _required(hints: dict[str, Any]) -> set[str]:
    """``__required_keys__`` is wrong where annotations are postponed (typing documentation)."""
    return {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}


def _is_scalar(value: object, expected: Any) -> bool:
    if expected is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, expected)
