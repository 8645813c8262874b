"""Picks from the words of a ``vllm serve`` line the options that memory depends on."""

from __future__ import annotations

import json
from collections.abc import Sequence

from vllm_warden.core.model import SettingValue

SWITCHES = frozenset({"enable_expert_parallel", "enforce_eager"})
TEXTS = frozenset({"kv_cache_dtype", "quantization"})
NUMBERS = frozenset({"block_size", "max_cudagraph_capture_size", "cpu_offload_gb"})
TABLES = frozenset({"speculative_config"})
SHORT = {"-q": "quantization"}


def line_settings(words: Sequence[str]) -> dict[str, SettingValue]:
    """The options by name; every other word is the engine's business and left out."""
    found: dict[str, SettingValue] = {}
    for position, word in enumerate(words):
        flag, equals, glued = word.partition("=")
        name = SHORT.get(flag) or flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("-"):
            continue
        if name in SWITCHES:
            found[name] = True
        elif name.removeprefix("no_") in SWITCHES:
            found[name.removeprefix("no_")] = False
        elif name in TEXTS | NUMBERS | TABLES:
            text = glued if equals else "".join(words[position + 1 : position + 2])
            value = _value(name, text)
            if value is not None:
                found[name] = value
    return found


def _value(name: str, text: str) -> SettingValue | None:
    if name in TEXTS:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_fitting = isinstance(value, dict) if name in TABLES else isinstance(value, int | float)
    return value if is_fitting else None
