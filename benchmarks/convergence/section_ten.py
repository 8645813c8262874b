"""The published decision table taken literally: right directions, fixed steps, one knob a time."""

from __future__ import annotations

import re

from benchmarks.convergence.play import Death, Next
from benchmarks.convergence.scenario import GIB, MIB, Settings, Value

UNITS = {"GiB": GIB, "MiB": MIB, "KiB": 1024, "bytes": 1}
STEP = 0.02
MARGIN = 0.5 * GIB
LAUNCHES = 7
AFTER_KV = re.compile(r"in compile_or_warm_up_model|in _allocate_kv_cache|in initialize_kv_cache")
SERVING = "EngineCore encountered a fatal error"


def section_ten(death: Death) -> Next:
    log = death.log
    if "unrecognized arguments" in log:
        return Next(None, "stop: arguments")
    if death.number >= LAUNCHES:
        return Next(None, "stop: tried often enough")
    if "on startup is less than desired" in log:
        return _taken(death)
    if found := re.search(r"Mamba cache blocks \((\d+)\)", log):
        return _lower(death, "max_num_seqs", int(found[1])) or Next(None, "stop: state blocks")
    if "No available memory for the cache" in log or "To serve at least one request" in log:
        return _too_small(death)
    return _out_of_memory(death) if "out of memory" in log.lower() else _unchanged(death)


def _unchanged(death: Death) -> Next:
    again = sum(one.startswith("again") for one in death.history)
    stop = Next(None, "stop: unknown, three times")
    return stop if again >= 3 else Next(death.settings, "again: no memory failure")


def _out_of_memory(death: Death) -> Next:
    log = death.log
    if SERVING in log or AFTER_KV.search(log):
        return _less_budget(death)
    if "in determine_available_memory" in log:
        name = "max_num_batched_tokens"
        if "sampler" in log or "in _dummy_sampler_run" in log:
            name = "max_num_seqs"
        half = int(death.settings[name]) // 2
        return _lower(death, name, half) or Next(None, f"stop: no lower {name}")
    if "Process 31337 has" in log:
        return Next(death.settings, "again: a neighbour", 120.0)
    return Next(None, "stop: the weights do not fit")


def _taken(death: Death) -> Next:
    if not any("wait" in one for one in death.history):
        return Next(death.settings, "again: wait for the memory", 600.0)
    share = int(100 * death.free_bytes / death.total_bytes) / 100
    if "(" in death.log and (
        found := re.search(r"\(([\d.]+)/([\d.]+) GiB\) on startup", death.log)
    ):
        share = int(100 * float(found[1]) / float(found[2])) / 100
    return _lower(death, "gpu_memory_utilization", share) or Next(None, "stop: taken")


def _too_small(death: Death) -> Next:
    now = float(death.settings["gpu_memory_utilization"])
    high = death.ranges["gpu_memory_utilization"][1]
    if now < high - 1e-9:
        value = round(min(high, now + STEP), 4)
        return Next({**death.settings, "gpu_memory_utilization": value}, f"utilization {value}")
    found = re.search(r"estimated maximum model length is (\d+)", death.log)
    if found and "max_model_len" in death.ranges:
        shorter = _lower(death, "max_model_len", int(found[1]) // 16 * 16)
        if shorter is not None:
            return shorter
    old = re.search(r"engine \(v0\.(9|1[0-6])\.", death.log)
    names = ["max_num_batched_tokens", "max_num_seqs"]
    for name in reversed(names) if old else names:
        half = _lower(death, name, int(death.settings[name]) // 2)
        if half is not None:
            return half
    return Next(None, "stop: the cache stays too small")


def _less_budget(death: Death) -> Next:
    tried, free = _size(death.log, r"Tried to allocate "), _size(death.log, r"of which ")
    step = max(STEP, (tried - free + MARGIN) / death.total_bytes)
    value = round(float(death.settings["gpu_memory_utilization"]) - step, 4)
    lower = _lower(death, "gpu_memory_utilization", value)
    if lower is not None:
        return lower
    half = int(death.settings["max_num_seqs"]) // 2
    return _lower(death, "max_num_seqs", half) or Next(None, "stop: no lower utilization")


def _lower(death: Death, name: str, value: float) -> Next | None:
    """Lower one setting within its bounds, sequences along with tokens; None if that is no move."""
    bounds = death.ranges.get(name)
    if bounds is None:
        return None
    value = max(value, bounds[0])
    if value >= float(death.settings[name]):
        return None
    shown: Value = value if name == "gpu_memory_utilization" else int(value)
    changed: Settings = {**death.settings, name: shown}
    if name == "max_num_batched_tokens" and int(death.settings["max_num_seqs"]) > value:
        changed = {**changed, "max_num_seqs": int(value)}
    return Next(changed, f"{name} {shown}")


def _size(log: str, before: str) -> float:
    found = re.search(before + r"([\d.]+) (GiB|MiB|KiB|bytes)", log)
    return float(found[1]) * UNITS[found[2]] if found else 0.0
