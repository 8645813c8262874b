"""The sentence that each failure ends in, with figures rounded as vLLM and torch round them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.convergence.boot import Outcome
from benchmarks.convergence.scenario import BLOCK_TOKENS, GIB, MIB, Scenario, Wall
from benchmarks.convergence.world import NEIGHBOUR_PID

RANK = "0"


def size(value: int) -> str:
    """As torch prints bytes."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1024, "KiB")):
        if value >= unit:
            return f"{value / unit:.2f} {name}"
    return f"{value} bytes"


def gib(scenario: Scenario, value: int) -> str:
    """As vLLM prints GiB: two decimals, from 0.14 on without trailing zeros."""
    number = round(value / GIB, 2)
    return (
        f"{number:.2f}"
        if scenario.truth.era.version in ("0.9.2", "0.11.2", "0.13.0")
        else (str(number))
    )


def figures_text(scenario: Scenario, outcome: Outcome) -> str:
    torch = outcome.torch
    assert torch is not None
    pools = (
        f" with {size(torch.private)} allocated in private pools (e.g., CUDA Graphs),"
        if torch.private
        else ""
    )
    others = (
        f"Process {NEIGHBOUR_PID} has {size(torch.others)} memory in use. " if torch.others else ""
    )
    name = (
        "PYTORCH_ALLOC_CONF"
        if scenario.truth.era.version == "0.15.1"
        else ("PYTORCH_CUDA_ALLOC_CONF")
    )
    return (
        f"CUDA out of memory. Tried to allocate {size(torch.tried)}. GPU {RANK} has a total "
        f"capacity of {size(scenario.truth.total)} of which {size(torch.free)} is free. {others}"
        f"Including non-PyTorch memory, this process has {size(torch.process)} memory in use. "
        f"Of the allocated memory {size(torch.allocated)} is allocated by PyTorch,{pools} and "
        f"{size(torch.unallocated)} is reserved by PyTorch but unallocated. If reserved but "
        f"unallocated memory is large try setting {name}=expandable_segments:True to avoid "
        "fragmentation.  See documentation for Memory Management"
    )


def _taken(scenario: Scenario, outcome: Outcome) -> str:
    truth = scenario.truth
    outside = truth.context + (0 if truth.era.nccl_in_budget else truth.nccl)
    free = max(0, truth.total - outcome.others.init - outside)
    device = "" if truth.era.version in ("0.9.2", "0.11.2", "0.13.0") else f"cuda:{RANK} "
    utilization = outcome.settings["gpu_memory_utilization"]
    return (
        f"Free memory on device {device}({gib(scenario, free)}/{gib(scenario, truth.total)} GiB) "
        f"on startup is less than desired GPU memory utilization ({utilization}, "
        f"{gib(scenario, outcome.need.requested)} GiB). Decrease GPU memory utilization or reduce "
        "GPU memory used by other processes."
    )


def _disturbed(scenario: Scenario, outcome: Outcome) -> str:
    truth = scenario.truth
    outside = truth.context + truth.nccl
    before = truth.total - outcome.others.init - outside
    after = before + outcome.others.init - outcome.others.profile - truth.weights
    return (
        f"Error in memory profiling. Initial free memory {gib(scenario, before)} GiB, current "
        f"free memory {gib(scenario, after)} GiB. This happens when other processes sharing the "
        "same container release GPU memory while vLLM is profiling during initialization. To fix "
        "this, ensure consistent GPU memory allocation or isolate vLLM in its own container."
    )


def _kv_plan(scenario: Scenario, outcome: Outcome) -> str:
    truth = scenario.truth
    if outcome.available <= 0:
        return (
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
            "when initializing the engine."
        )
    estimate = outcome.available // (BLOCK_TOKENS * truth.kv_per_token) * BLOCK_TOKENS
    words = "models's" if truth.era.version < "0.22" else "model's"
    told = (
        f" Based on the available memory, the estimated maximum model length is {estimate}."
        if estimate
        else ""
    )
    return (
        f"To serve at least one request with the {words} max seq len "
        f"({outcome.settings['max_model_len']}), ({gib(scenario, outcome.need.kv_request)} GiB KV "
        "cache is needed, which is larger than the available KV cache memory "
        f"({gib(scenario, outcome.available)} GiB).{told} Try increasing "
        "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
    )


def _states(scenario: Scenario, outcome: Outcome) -> str:
    blocks = max(0, outcome.available) // scenario.truth.state_page
    return (
        f"max_num_seqs ({outcome.settings['max_num_seqs']}) exceeds available Mamba cache blocks "
        f"({blocks}). Each decode request requires at least one Mamba cache block. Please lower "
        f"max_num_seqs to at most {blocks} or increase gpu_memory_utilization."
    )


def _sampler(scenario: Scenario, outcome: Outcome) -> str:
    settings = outcome.settings
    rows = min(int(settings["max_num_seqs"]), int(settings["max_num_batched_tokens"]))
    if not scenario.truth.era.friendly:
        return figures_text(scenario, outcome)
    return (
        f"CUDA out of memory occurred when warming up sampler with {rows} dummy requests. Please "
        "try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
    )


MESSAGES: Mapping[Wall, Callable[[Scenario, Outcome], str]] = {
    Wall.INIT: _taken,
    Wall.LOAD: figures_text,
    Wall.PROFILE_FORWARD: figures_text,
    Wall.PROFILE_SAMPLER: _sampler,
    Wall.DISTURBED: _disturbed,
    Wall.KV_PLAN: _kv_plan,
    Wall.STATE_BLOCKS: _states,
    Wall.KV_ALLOC: figures_text,
    Wall.CAPTURE: figures_text,
    Wall.WARMUP: _sampler,
    Wall.FULL_BATCH: figures_text,
    Wall.SPIKE: figures_text,
}
