"""Sizes that no engine takes, and bounds of knobs that contradict themselves or what was asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from math import inf, isfinite

from vllm_warden.config.settings import KNOBS
from vllm_warden.config.wording import Fault, Path
from vllm_warden.core.plan.sizes import SIZE_MOST, parse_bytes

_MOST = float(SIZE_MOST)
# Lowest and highest value that the engine itself takes (vLLM 0.32: CacheConfig, SchedulerConfig,
# ParallelConfig, CompilationConfig).
_LIMITS: Mapping[str, tuple[float, float]] = {
    "gpu_memory_utilization": (0.01, 1.0),
    "max_num_seqs": (1, _MOST),
    "max_num_batched_tokens": (1, _MOST),
    "max_model_len": (1, _MOST),
    "kv_cache_memory_bytes": (1, _MOST),
    "block_size": (1, _MOST),
    "cpu_offload_gb": (0, _MOST),
    "data_parallel_size": (1, _MOST),
    "max_cudagraph_capture_size": (0, _MOST),
    "pipeline_parallel_size": (1, _MOST),
    "tensor_parallel_size": (1, _MOST),
}
LIMITED = frozenset(_LIMITS)
"""The options that are looked at before anything is launched with them."""

_FRACTIONS = frozenset({"gpu_memory_utilization", "cpu_offload_gb"})
LONGEST = (-1, "-1", "auto")
"""Asks vLLM for the longest context that fits (0.11 and newer)."""


def knob_faults(name: str, table: Mapping[str, object]) -> Iterator[Fault]:
    """Every contradiction in ``[instance.NAME.adapt]``."""
    adapt, engine = table.get("adapt"), table.get("engine")
    options = engine if isinstance(engine, dict) else {}
    for knob in KNOBS:
        bounds = adapt.get(knob) if isinstance(adapt, dict) else None
        if isinstance(bounds, dict):
            path: Path = ("instance", name, "adapt", knob)
            yield from _range(path, knob, bounds, number(options.get(knob)))
    for option in _LIMITS:
        if option in options:
            yield from asked_faults(("instance", name, "engine", option), option, options[option])


def asked_faults(path: Path, knob: str, value: object) -> Iterator[Fault]:
    """What the engine itself would not take for this option, one of LIMITED."""
    if knob == "max_model_len" and value in LONGEST:
        return
    asked = number(value)
    if asked is None and isinstance(value, str) and knob in _FRACTIONS:
        with contextlib.suppress(ValueError):  # 0.9 is text that is no size
            asked = float(value)
    if asked is None or not (knob in _FRACTIONS or not isfinite(asked) or asked.is_integer()):
        yield Fault(path, value, "this is no number" if asked is None else "no whole number")
    elif not _within(knob, asked):
        yield Fault(path, value, "out of bounds", _limits(knob))


def is_whole(option: str, value: float) -> bool:
    """True for a whole number of something that is counted."""
    return option in LIMITED - _FRACTIONS and value.is_integer()


def number(value: object) -> float | None:
    """The number that a bound or an option stands for; sizes as vLLM reads them."""
    if isinstance(value, bool):
        return None
    size = parse_bytes(value) if isinstance(value, str) else value
    if not isinstance(size, int | float):
        return None
    try:
        return float(size)
    except OverflowError:
        return inf


def _range(
    path: Path, knob: str, bounds: Mapping[str, object], asked: float | None
) -> Iterator[Fault]:
    for end in ("min", "max"):
        written = bounds.get(end)
        value = number(written)
        if isinstance(written, str) and value is None:
            yield Fault((*path, end), written, "this is no size", 'a number, or text like "16G"')
        if value is not None and not _within(knob, value):
            yield Fault((*path, end), written, "out of bounds", _limits(knob))
    low, high = number(bounds.get("min")), number(bounds.get("max"))
    if low is not None and high is not None and low > high:
        yield Fault((*path, "min"), bounds["min"], f"it is above max = {bounds['max']}")
    if asked is None:
        return
    if low is not None and low > asked:
        yield Fault((*path, "min"), bounds["min"], f"it is above the asked {plain_number(asked)}")
    if high is not None and high < asked:
        hint = f"ask for {plain_number(high)} in [engine], or raise max"
        reason = f"it is below the asked {plain_number(asked)}"
        yield Fault((*path, "max"), bounds["max"], reason, hint=hint)


def _within(knob: str, value: float) -> bool:
    low, high = _LIMITS[knob]
    return isfinite(value) and low <= value <= high


def _limits(knob: str) -> str:
    low, high = _LIMITS[knob]
    return f"{plain_number(low)} to {plain_number(high)}"


def plain_number(value: float) -> str:
    """Without an exponent where it is a whole number."""
    return str(int(value)) if float(value).is_integer() else f"{value:g}"
