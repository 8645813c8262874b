"""Failures to obtain memory of the host, as text or counted by the kernel."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import (
    HOST_ALLOCATION,
    Allocation,
    Counted,
    Prints,
    Raises,
)
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.kernel_lines import oom_victim, pids_of
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.model import Failure, Phase, Site

_HOST = Failure.HOST_OUT_OF_MEMORY
_LIMIT = (
    "May be a limit of the process (RLIMIT_AS) or of its cgroup rather than the machine's memory."
)


def _refused(
    phases: tuple[Phase, ...] = (), sites: tuple[Site, ...] = (), *, nowhere: bool = False
) -> Allocation:
    return Allocation(HOST_ALLOCATION, frozenset(phases), frozenset(sites), nowhere)


def _oom_kills(evidence: Evidence) -> str | None:
    if evidence.oom_kills > 0:
        return f"the kernel counted {evidence.oom_kills} oom_kill in the attempt's memory cgroup"
    return None


def _kernel_says(evidence: Evidence) -> str | None:
    pids = pids_of(evidence)
    for line in evidence.kernel_lines:
        if oom_victim(line) in pids:
            return line
    return None


SIGNATURES = (
    Signature(
        id="host-oom-killed",
        failure=_HOST,
        detect=Counted(_oom_kills),
        summary="The kernel killed a process of this attempt for want of host memory.",
        caution="Counted for the whole unit: a side process may have been the victim.",
        weight=Weight.COUNTED,
    ),
    Signature(
        id="host-oom-kernel-log",
        failure=_HOST,
        detect=Counted(_kernel_says),
        summary="The kernel's log says that it killed a process of this attempt for want of host memory.",
        caution="Matched by process number.",
        weight=Weight.COUNTED,
    ),
    Signature(
        id="host-oom-kernel-line",
        failure=_HOST,
        detect=Prints(
            (
                "oom-kill:constraint",
                "Out of memory: Killed process",
                "Memory cgroup out of memory: Killed process",
            ),
            levels=(None,),
        ),
        summary="The kernel's log says that it killed a process for want of host memory.",
        caution="The victim may be another program's process.",
        weight=Weight.DEATH,
        likely=True,
    ),
    Signature(
        id="host-load-oom",
        failure=_HOST,
        detect=_refused((Phase.LOAD,)),
        summary="The host refused memory for the model's weights.",
        caution=_LIMIT,
    ),
    Signature(
        id="host-sampler-oom",
        failure=_HOST,
        detect=_refused((Phase.PROFILE, Phase.WARMUP), (Site.SAMPLER,)),
        summary="The host refused memory for the sampler's trial run.",
        caution=_LIMIT,
    ),
    Signature(
        id="host-profile-oom",
        failure=_HOST,
        detect=_refused(
            (Phase.PROFILE, Phase.WARMUP, Phase.KERNELS, Phase.CUDAGRAPH),
            (Site.ACTIVATIONS, Site.ENCODER, Site.POOLER, Site.KERNELS, Site.CUDA_GRAPHS),
        ),
        summary="The host refused memory for the model's trial run.",
        caution=_LIMIT,
    ),
    Signature(
        id="host-kv-oom",
        failure=_HOST,
        detect=_refused((Phase.KV_ALLOC, Phase.KV_PLAN)),
        summary="The host refused memory for the KV cache.",
        caution=_LIMIT,
        site=Site.KV_CACHE,
    ),
    Signature(
        id="host-serving-oom",
        failure=_HOST,
        detect=_refused((Phase.SERVING,)),
        summary="The host refused memory while serving.",
        caution=_LIMIT,
    ),
    Signature(
        id="host-unplaced-oom",
        failure=_HOST,
        detect=_refused(nowhere=True),
        summary="The host refused memory, and the log does not show the call stack.",
        caution="The phase is only where the log was last. " + _LIMIT,
        likely=True,
    ),
    Signature(
        id="host-kv-taken",
        failure=_HOST,
        detect=Raises(
            "ValueError",
            "on kv cache allocation is less than requested memory for kv",
            re.compile(r"for kv \((?!-)"),
        ),
        summary="Less host memory is free than the CPU engine's KV cache asks for.",
        caution="Other programs' memory counts as taken.",
        phase=Phase.KV_ALLOC,
        site=Site.KV_CACHE,
    ),
    Signature(
        id="host-memory-taken-at-start",
        failure=Failure.GPU_MEMORY_TAKEN,
        detect=Raises("ValueError", "on startup is less than desired CPU memory utilization"),
        summary="Less host memory is free at the start than the CPU engine's utilization asks for.",
        caution="Other programs' memory counts as taken.",
        phase=Phase.INIT_DEVICE,
    ),
    Signature(
        id="ray-host-oom",
        failure=_HOST,
        detect=Raises("", "Task was killed due to the node running low on memory", anywhere=True),
        summary="Ray killed a worker because the host ran low on memory.",
        caution="Ray's exception has the same name as torch's; it is about the host.",
    ),
)
