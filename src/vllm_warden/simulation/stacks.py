"""Which call stacks a rank's failures have in each era; rows as in ``frames``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from vllm_warden.simulation import frames, stacks_of_0_9, stacks_of_runner_v2
from vllm_warden.simulation.era import DEFAULT, Era, current

Rows = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stacks:
    """The rows between the executor's frames and the allocation that failed."""

    init_device: Rows
    create_weights: Rows
    profile_forward: Rows
    profile_sampler: Rows
    profile_logits: Rows
    allocate_kv: Rows
    kernels: Rows
    capture: Rows
    warmup_sampler: Rows
    warmup_logits: Rows
    sampler_raises: Rows
    sampler_sort: Rows
    execute_model: Rows
    plan_kv: Rows


_OF_0_15 = Stacks(
    init_device=frames.INIT_DEVICE,
    create_weights=(*frames.LOAD_MODEL, *frames.CREATE_WEIGHTS),
    profile_forward=frames.PROFILE_FORWARD,
    profile_sampler=frames.PROFILE_SAMPLER,
    profile_logits=(*frames.PROFILE_SAMPLER, *frames.SAMPLER_LOGITS),
    allocate_kv=frames.ALLOCATE_KV,
    kernels=frames.KERNELS,
    capture=frames.CAPTURE,
    warmup_sampler=frames.WARMUP_SAMPLER,
    warmup_logits=(*frames.WARMUP_SAMPLER, *frames.SAMPLER_LOGITS),
    sampler_raises=frames.SAMPLER_RAISES,
    sampler_sort=frames.SAMPLER_SORT,
    execute_model=frames.EXECUTE_MODEL,
    plan_kv=frames.CORE_PLAN_KV,
)
_OF_0_9 = Stacks(
    init_device=stacks_of_0_9.INIT_DEVICE,
    create_weights=stacks_of_0_9.CREATE_WEIGHTS,
    profile_forward=stacks_of_0_9.PROFILE_FORWARD,
    profile_sampler=stacks_of_0_9.PROFILE_SAMPLER,
    profile_logits=(*stacks_of_0_9.PROFILE_SAMPLER, *stacks_of_0_9.SAMPLER_LOGITS),
    allocate_kv=stacks_of_0_9.ALLOCATE_KV,
    kernels=stacks_of_0_9.COMPILE,
    capture=stacks_of_0_9.CAPTURE,
    warmup_sampler=stacks_of_0_9.WARMUP_SAMPLER,
    warmup_logits=(*stacks_of_0_9.WARMUP_SAMPLER, *stacks_of_0_9.SAMPLER_LOGITS),
    sampler_raises=stacks_of_0_9.SAMPLER_RAISES,
    sampler_sort=stacks_of_0_9.SAMPLER_SORT,
    execute_model=stacks_of_0_9.EXECUTE_MODEL,
    plan_kv=stacks_of_0_9.PLAN_KV,
)
_OF_RUNNER_V2 = Stacks(
    init_device=stacks_of_runner_v2.INIT_DEVICE,
    create_weights=stacks_of_runner_v2.CREATE_WEIGHTS,
    profile_forward=stacks_of_runner_v2.PROFILE_FORWARD,
    profile_sampler=stacks_of_runner_v2.PROFILE_SAMPLER,
    profile_logits=stacks_of_runner_v2.PROFILE_LOGITS,
    allocate_kv=stacks_of_runner_v2.ALLOCATE_KV,
    kernels=stacks_of_runner_v2.KERNELS,
    capture=stacks_of_runner_v2.CAPTURE,
    warmup_sampler=stacks_of_runner_v2.WARMUP_SAMPLER,
    warmup_logits=stacks_of_runner_v2.WARMUP_LOGITS,
    sampler_raises=(),
    sampler_sort=stacks_of_runner_v2.SAMPLER_SORT,
    execute_model=stacks_of_runner_v2.EXECUTE_MODEL,
    plan_kv=frames.CORE_PLAN_KV,
)
_OF = {"0.9.2": _OF_0_9, DEFAULT: _OF_0_15, "0.32.0": _OF_RUNNER_V2}


@lru_cache(maxsize=1)
def stacks() -> Stacks:
    """Those of this process's era."""
    return of(current())


def of(era: Era) -> Stacks:
    return _OF[era.version]
