"""Derives, from every compiled pattern of the diagnosis, lines that could make it slow."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import re._constants as opcodes  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import time
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from vllm_warden.core import diagnose, secrets

Item = tuple[Any, Any]
"""Kind and value, as the interpreter's own parser of expressions gives them."""

LINE_CHARACTERS = 1 << 20
_SCREENED_CHARACTERS = 1_500
_LONG = 400
"""Repetitions without a limit, or with a larger one, are drawn so long in one unit."""


def patterns() -> dict[str, re.Pattern[str] | re.Pattern[bytes]]:
    """Every compiled pattern in core/diagnose and core/secrets, by where it was found first."""
    found: dict[re.Pattern[str] | re.Pattern[bytes], str] = {}
    for module in _modules():
        for name, value in vars(module).items():
            for pattern in _within(value, 0):
                found.setdefault(pattern, f"{module.__name__.rpartition('.')[2]}.{name}")
    return {f"{where} {number}": pattern for number, (pattern, where) in enumerate(found.items())}


def _modules() -> Iterator[ModuleType]:
    yield secrets
    for info in pkgutil.walk_packages(diagnose.__path__, f"{diagnose.__name__}."):
        yield importlib.import_module(info.name)


def _within(value: object, depth: int) -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    if depth > 6 or isinstance(value, type | ModuleType):
        return
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _within(item, depth + 1)
    elif isinstance(value, tuple | list | frozenset | set):
        for item in value:
            yield from _within(item, depth + 1)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _within(getattr(value, field.name, None), depth + 1)


def slowest_units(pattern: re.Pattern[str] | re.Pattern[bytes], count: int = 2) -> list[str]:
    """Pieces of text that, repeated, cost the pattern by itself most."""
    timed = sorted(
        ((_seconds(pattern, unit), unit) for unit in set(_units(pattern)) if unit), reverse=True
    )
    return [unit for _, unit in timed[:count]]


def repeated(unit: str, characters: int = LINE_CHARACTERS) -> str:
    return (unit * (characters // len(unit) + 1))[:characters].replace("\n", " ")


def _seconds(pattern: re.Pattern[Any], unit: str) -> float:
    text = repeated(unit, _SCREENED_CHARACTERS)
    is_bytes = isinstance(pattern.pattern, bytes)
    searched = text.encode("latin-1", "replace") if is_bytes else text
    begin = time.process_time()
    pattern.search(searched)
    return time.process_time() - begin


def _units(pattern: re.Pattern[str] | re.Pattern[bytes]) -> Iterator[str]:
    """Almost-matches: each begin of an example, and each with one repetition drawn out."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    for items in _sequences(parser.parse(text, pattern.flags & ~re.UNICODE)):
        for end in range(1, len(items) + 1):
            begin = "".join(_example(item) for item in items[: end - 1])
            yield begin + _example(items[end - 1])
            yield begin + _drawn_out(items[end - 1])
            yield _drawn_out(items[end - 1]) + " "
    yield from ("'", '"', "\\", "'\\", "[", "('", "a ", "1", "1.", " ", "\t", "a=", "://a", "[']")


def _sequences(parsed: Iterable[Item]) -> Iterator[list[Item]]:
    """The pattern's own sequence, and those of its groups and alternatives."""
    items = list(parsed)
    yield items
    for kind, value in items:
        if kind is opcodes.BRANCH:
            for branch in value[1]:
                yield from _sequences(branch)
        elif kind is opcodes.SUBPATTERN:
            yield from _sequences(value[3])
        elif kind in _REPEATS:
            yield from _sequences(value[2])


_REPEATS = (opcodes.MAX_REPEAT, opcodes.MIN_REPEAT, opcodes.POSSESSIVE_REPEAT)


def _example(item: Item) -> str:
    """One text that the item matches (nothing for what has no width)."""
    kind, value = item
    simple: dict[Any, Callable[[], str]] = {
        opcodes.LITERAL: lambda: chr(value),
        opcodes.NOT_LITERAL: lambda: "a" if value != ord("a") else "b",
        opcodes.ANY: lambda: "a",
        opcodes.IN: lambda: _one_of(value),
        opcodes.BRANCH: lambda: _all(value[1][0]),
        opcodes.SUBPATTERN: lambda: _all(value[3]),
        opcodes.ATOMIC_GROUP: lambda: _all(value),
    }
    if kind in _REPEATS:
        return str(_all(value[2]) * max(1, min(value[0], 8)))
    return simple[kind]() if kind in simple else ""


def _drawn_out(item: Item) -> str:
    kind, value = item
    if kind in _REPEATS:
        return str(_all(value[2]) * min(_LONG, value[1] + 1))
    return _example(item) * 3


def _all(parsed: Iterable[Item]) -> str:
    return "".join(_example(item) for item in parsed)


def _one_of(choices: list[Item]) -> str:
    """A character of the class; of a negated one something that is not in it."""
    if choices[0][0] is opcodes.NEGATE:
        for character in "a 1\"'x:":
            if not any(_holds(choice, character) for choice in choices[1:]):
                return character
        return "~"
    kind, value = choices[0]
    if kind is opcodes.LITERAL:
        return chr(value)
    if kind is opcodes.RANGE:
        return chr(value[0])
    return {opcodes.CATEGORY_DIGIT: "1", opcodes.CATEGORY_SPACE: " "}.get(value, "a")


def _holds(choice: Item, character: str) -> bool:
    kind, value = choice
    if kind is opcodes.LITERAL:
        return bool(ord(character) == value)
    if kind is opcodes.RANGE:
        return bool(value[0] <= ord(character) <= value[1])
    classes: dict[Any, Callable[[str], bool]] = {
        opcodes.CATEGORY_DIGIT: str.isdigit,
        opcodes.CATEGORY_SPACE: str.isspace,
        opcodes.CATEGORY_WORD: lambda one: one.isalnum() or one == "_",
        opcodes.CATEGORY_NOT_SPACE: lambda one: not one.isspace(),
    }
    return bool(classes.get(value, lambda _: False)(character))
