"""Reads numbers out of a config.json that anybody may have written."""

from __future__ import annotations

from collections.abc import Mapping

NUMBER_MAX = 1 << 40
"""No size in a config.json is larger; what is, is nonsense."""
LAYERS_MAX = 10_000
TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")


def number(config: Mapping[str, object], *names: str, most: int = NUMBER_MAX) -> int:
    """The first of the names that holds a positive whole number, else 0."""
    for name in names:
        value = config.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most:
            return value
    return 0


def table(config: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = config.get(name)
    return value if isinstance(value, dict) else {}


def words(config: Mapping[str, object], *names: str) -> tuple[str, ...]:
    """The first of the names that holds a list of words, else nothing."""
    for name in names:
        value = config.get(name)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return tuple(value[:LAYERS_MAX])
    return ()


def numbers(config: Mapping[str, object], *names: str) -> frozenset[int]:
    for name in names:
        value = config.get(name)
        if isinstance(value, list):
            return frozenset(item for item in value[:LAYERS_MAX] if isinstance(item, int))
    return frozenset()


def language_part(config: Mapping[str, object]) -> Mapping[str, object]:
    """Multimodal models keep the numbers of their language model one level down."""
    merged: dict[str, object] = dict(config)
    for name in TEXT_PARTS:
        inner = table(config, name)
        if inner:
            merged |= language_part(inner)
            break
    return merged
