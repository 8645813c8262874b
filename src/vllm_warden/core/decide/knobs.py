"""How far each setting may be moved: what the operator wrote, else the defaults.

A setting that is missing from the result may not be moved at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vllm_warden.core.model import Settings
from vllm_warden.core.plan.sizes import parse_bytes
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, ModelFacts

SEQUENCES_MIN = 16
TOKENS_MIN = 2048
UTILIZATION_SPAN = 0.10
UTILIZATION_MIN = 0.01
"""vLLM takes none that is 0 or less; a percent of a GPU holds no engine."""
FRACTIONS = frozenset({"gpu_memory_utilization"})
MOVABLE = (
    *("max_num_seqs", "gpu_memory_utilization", "max_num_batched_tokens"),
    *("kv_cache_memory_bytes", "max_model_len"),
)
FORBIDDEN_BY_DEFAULT = frozenset({"max_model_len"})
"""A shorter context is a broken promise to clients: only an operator may allow it."""


@dataclass(frozen=True, slots=True)
class Range:
    """Lowest and highest value that the warden may choose; both inclusive."""

    low: float
    high: float


def number(value: object) -> float | None:
    """A setting as a number (``"256M"`` in bytes), None when it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    return None if not isinstance(value, str) else _parsed(value)


def _parsed(value: str) -> float | None:
    parsed = parse_bytes(value)
    return None if parsed is None else float(parsed)


def effective(asked: Settings, defaults: Settings, model: ModelFacts) -> dict[str, float]:
    """The numeric settings that count: asked, else the engine's default."""
    merged: dict[str, object] = {**defaults, **asked}
    if "max_model_len" not in merged and model.max_position is not None:
        merged["max_model_len"] = model.max_position
    values = ((name, number(value)) for name, value in merged.items())
    return {name: value for name, value in values if value is not None}


def allowed_ranges(adapt: AdaptSpec, asked: dict[str, float]) -> dict[str, Range]:
    """The range of every setting that may be moved; ``asked`` as from ``effective``."""
    ranges: dict[str, Range] = {}
    for name, low in _default_lows(asked).items():
        bounds = adapt.knobs.get(name, Bounds(allowed=name not in FORBIDDEN_BY_DEFAULT))
        if not bounds.allowed:
            continue
        high = asked[name] if bounds.max is None else bounds.max
        least = min(low if bounds.min is None else bounds.min, high)
        ranges[name] = Range(least, high) if name in FRACTIONS else _whole(least, high)
    return ranges


def _whole(low: float, high: float) -> Range:
    """Of counts: between 128.5 and 1024.5 lie 129 to 1024, and none is below 1."""
    top = max(1, math.floor(high))
    return Range(min(max(1, math.ceil(low)), top), top)


def _default_lows(asked: dict[str, float]) -> dict[str, float]:
    lows: dict[str, float] = {}
    if (sequences := asked.get("max_num_seqs")) is not None:
        lows["max_num_seqs"] = min(sequences, max(SEQUENCES_MIN, sequences // 8))
    if (utilization := asked.get("gpu_memory_utilization")) is not None:
        span = round(utilization - UTILIZATION_SPAN, 4)
        lows["gpu_memory_utilization"] = min(utilization, max(UTILIZATION_MIN, span))
    if (tokens := asked.get("max_num_batched_tokens")) is not None:
        lows["max_num_batched_tokens"] = min(tokens, TOKENS_MIN)
    if (kv_bytes := asked.get("kv_cache_memory_bytes")) is not None:
        lows["kv_cache_memory_bytes"] = kv_bytes // 4
    if asked.get("max_model_len") is not None:
        lows["max_model_len"] = 1
    return lows
