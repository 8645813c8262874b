"""Bounds of knobs that contradict themselves or what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vllm_warden.config.settings import KNOBS
from vllm_warden.config.wording import Fault, Path
from vllm_warden.core.plan.sizes import parse_bytes

# Lowest and highest value that the engine itself takes (vLLM 0.32: CacheConfig, SchedulerConfig).
_LIMITS: Mapping[str, tuple[float, float]] = {
    "gpu_memory_utilization": (0.01, 1.0),
    "max_num_seqs": (1, float("inf")),
    "max_num_batched_tokens": (1, float("inf")),
    "max_model_len": (1, float("inf")),
    "kv_cache_memory_bytes": (1, float("inf")),
}


def knob_faults(name: str, table: Mapping[str, object]) -> Iterator[Fault]:
    """Every contradiction in ``[instance.NAME.adapt]``."""
    adapt, engine = table.get("adapt"), table.get("engine")
    options = engine if isinstance(engine, dict) else {}
    for knob in KNOBS:
        bounds = adapt.get(knob) if isinstance(adapt, dict) else None
        if isinstance(bounds, dict):
            path: Path = ("instance", name, "adapt", knob)
            yield from _range(path, knob, bounds, number(options.get(knob)))
        asked = number(options.get(knob))
        if asked is not None and not _within(knob, asked):
            where: Path = ("instance", name, "engine", knob)
            # -1 asks vLLM for the longest context that fits (0.11 and newer).
            if not (knob == "max_model_len" and asked == -1):
                yield Fault(where, options[knob], "out of bounds", _limits(knob))


def number(value: object) -> float | None:
    """The number that a bound or an option stands for; sizes as vLLM reads them."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        size = parse_bytes(value)
        return None if size is None else float(size)
    return None


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
        yield Fault((*path, "min"), bounds["min"], f"it is above the asked {_plain(asked)}")
    if high is not None and high < asked:
        hint = f"ask for {_plain(high)} in [engine], or raise max"
        reason = f"it is below the asked {_plain(asked)}"
        yield Fault((*path, "max"), bounds["max"], reason, hint=hint)


def _within(knob: str, value: float) -> bool:
    low, high = _LIMITS[knob]
    return low <= value <= high


def _limits(knob: str) -> str:
    low, high = _LIMITS[knob]
    return f"at least {low:g}" if high == float("inf") else f"{low:g} to {high:g}"


def _plain(value: float) -> str:
    return str(int(value)) if value.is_integer() else f"{value:g}"
