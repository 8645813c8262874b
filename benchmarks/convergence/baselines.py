"""What others do after a crash, re-implemented from how they are described; they read logs only."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchmarks.convergence.play import Death, Next, Policy
from benchmarks.convergence.scenario import Value
from benchmarks.convergence.section_ten import section_ten

MEMORY = re.compile(
    r"out of memory|No available memory for the cache blocks|To serve at least one request"
    r"|on startup is less than|Error in memory profiling|Mamba cache blocks"
)
RUNPOD_MEMORY = re.compile(
    r"CUDA out of memory|No available memory for the cache blocks"
    r"|larger than the available KV cache memory"
)
UNCHANGED_MAX = 3
LADDER_STEPS = 4
PLATFORM_RETRIES = 4
PLATFORM_SECONDS = 60.0
"""A retry of the platform is a new container."""


def _again(death: Death, reason: str, most: int, wait_seconds: float = 10.0) -> Next:
    unchanged = sum(one.startswith("again") for one in death.history)
    if unchanged >= most:
        return Next(None, f"stop: {reason}")
    return Next(death.settings, f"again: {reason}", wait_seconds)


def blind(death: Death) -> Next:
    """``Restart=always``: the same again, for ever."""
    return Next(death.settings, "again")


def utilization_ladder(death: Death) -> Next:
    """Every memory failure lowers utilization by 0.05, four times."""
    if not MEMORY.search(death.log):
        return _again(death, "no memory failure", UNCHANGED_MAX)
    low = float(death.asked["gpu_memory_utilization"]) - 0.05 * LADDER_STEPS
    value = round(float(death.settings["gpu_memory_utilization"]) - 0.05, 4)
    if value < low - 1e-9:
        return Next(None, "stop: at the end of the ladder")
    return Next({**death.settings, "gpu_memory_utilization": value}, f"utilization {value}")


def halve_sequences(death: Death) -> Next:
    """Every memory failure halves the sequences, down to 16."""
    if not MEMORY.search(death.log):
        return _again(death, "no memory failure", UNCHANGED_MAX)
    value = int(death.settings["max_num_seqs"]) // 2
    if value < max(16, death.ranges["max_num_seqs"][0]):
        return Next(None, "stop: no fewer sequences")
    return Next({**death.settings, "max_num_seqs": value}, f"sequences {value}")


def runpod(death: Death) -> Next:
    """One remedy for all memory failures, once: eager mode and 8,192 batched tokens."""
    if not RUNPOD_MEMORY.search(death.log):
        return _again(death, "the platform retries", PLATFORM_RETRIES, PLATFORM_SECONDS)
    tokens = min(8192, int(death.settings["max_num_batched_tokens"]))
    smaller: dict[str, Value] = {"max_num_batched_tokens": tokens, "enforce_eager": True}
    if all(death.settings.get(name) == value for name, value in smaller.items()):
        return Next(None, "stop: the same footprint would fail the same way")
    return Next({**death.settings, **smaller}, "eager, 8192 tokens")


def apron(death: Death) -> Next:
    """A correction where the log prints a number for it, none where it does not."""
    settings = dict(death.settings)
    if found := re.search(r"estimated maximum model length is (\d+)", death.log):
        settings["max_model_len"] = int(found[1]) // 16 * 16
    elif found := re.search(r"warming up sampler with (\d+) dummy requests", death.log):
        settings["max_num_seqs"] = max(1, int(found[1]) // 2)
    elif found := re.search(r"Mamba cache blocks \((\d+)\)", death.log):
        settings["max_num_seqs"] = int(found[1])
    elif MEMORY.search(death.log) or "unrecognized arguments" in death.log:
        return Next(None, "stop: no number in the message, no correction")
    else:
        return _again(death, "a faulty host", 2)
    if death.number > 6 or settings["max_num_seqs"] == 0:
        return Next(None, "stop: corrected often enough")
    return Next(settings, "corrected")


BASELINES: Mapping[str, Policy] = {
    "blind restart": blind,
    "utilization -0.05": utilization_ladder,
    "halve max_num_seqs": halve_sequences,
    "RunPod: eager, 8192": runpod,
    "Apron-like": apron,
    "section 10, literal": section_ten,
}
