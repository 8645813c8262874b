"""Failures to obtain GPU memory, one row for each phase and what the memory was for."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import GPU_ALLOCATION, Allocation, Prints, Raises
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.model import Failure, Phase, Site

_OOM = Failure.GPU_OUT_OF_MEMORY
_HOLDER = "Does not say who holds the memory; another process may."


def _oom(
    phases: tuple[Phase, ...] = (), sites: tuple[Site, ...] = (), *, nowhere: bool = False
) -> Allocation:
    return Allocation(GPU_ALLOCATION, frozenset(phases), frozenset(sites), nowhere)


SIGNATURES = (
    Signature(
        id="init-oom",
        failure=_OOM,
        detect=_oom((Phase.INIT_DEVICE,)),
        summary="The GPU had no memory left for the CUDA context or the first buffers.",
        caution=_HOLDER,
    ),
    Signature(
        id="communication-oom",
        failure=_OOM,
        detect=Raises(
            "",
            "NCCL error",
            re.compile(r"out of memory|Failed to CUDA (?:malloc|calloc)", re.IGNORECASE),
        ),
        summary="NCCL could not obtain GPU memory for its buffers.",
        caution=_HOLDER,
        site=Site.COMMUNICATION,
    ),
    Signature(
        id="load-oom",
        failure=_OOM,
        detect=_oom((Phase.LOAD,), (Site.WEIGHTS,)),
        summary="The model's weights do not fit into the GPU memory that was free.",
        caution="vLLM advises a lower utilization here; loading does not read it. " + _HOLDER,
    ),
    Signature(
        id="lora-load-oom",
        failure=_OOM,
        detect=_oom((Phase.LOAD,), (Site.LORA,)),
        summary="The buffers for LoRA adapters do not fit beside the weights.",
        caution=_HOLDER,
    ),
    Signature(
        id="profile-oom",
        failure=_OOM,
        detect=_oom((Phase.PROFILE,), (Site.ACTIVATIONS,)),
        summary="The profiling run's forward pass did not fit beside the weights.",
        caution="Before the KV cache exists: its size plays no part. " + _HOLDER,
    ),
    Signature(
        id="encoder-profile-oom",
        failure=_OOM,
        detect=_oom((Phase.PROFILE, Phase.WARMUP), (Site.ENCODER,)),
        summary="The multimodal encoder's trial run did not fit.",
        caution=_HOLDER,
    ),
    Signature(
        id="graph-estimate-oom",
        failure=_OOM,
        detect=_oom((Phase.PROFILE,), (Site.CUDA_GRAPHS,)),
        summary="The trial capture of CUDA graphs during profiling did not fit.",
        caution="Only vLLM 0.18 and later capture on trial; the KV cache there is minimal.",
        since="0.18.0",
    ),
    Signature(
        id="sampler-profile-oom",
        failure=_OOM,
        detect=_oom((Phase.PROFILE,), (Site.SAMPLER,)),
        summary="The profiling run's sampler did not fit beside the weights.",
        caution="Its text is that of the warm-up after the KV cache exists; the call stack tells.",
    ),
    Signature(
        id="sampler-warmup-oom",
        failure=_OOM,
        detect=_oom((Phase.WARMUP,), (Site.SAMPLER,)),
        summary="The sampler's warm-up did not fit beside weights, KV cache and CUDA graphs.",
        caution="Its text is that of the profiling run before the KV cache; the call stack tells.",
    ),
    Signature(
        id="pooler-oom",
        failure=_OOM,
        detect=_oom((Phase.PROFILE, Phase.WARMUP), (Site.POOLER,)),
        summary="The pooler's trial run did not fit.",
        caution=_HOLDER,
        since="0.9.2",
    ),
    Signature(
        id="kv-allocation-oom",
        failure=_OOM,
        detect=_oom((Phase.KV_ALLOC,)),
        summary="The planned KV cache did not fit into the GPU memory that was free.",
        caution="The plan is made from the budget, not from what is free by now. " + _HOLDER,
    ),
    Signature(
        id="kernel-warmup-oom",
        failure=_OOM,
        detect=_oom((Phase.KERNELS,)),
        summary="Warming up or tuning kernels did not fit beside the KV cache.",
        caution=_HOLDER,
        since="0.10.1",
    ),
    Signature(
        id="graph-capture-oom",
        failure=_OOM,
        detect=_oom((Phase.CUDAGRAPH,)),
        summary="Capturing CUDA graphs did not fit beside weights and KV cache.",
        caution="Before vLLM 0.20 graphs are not budgeted. " + _HOLDER,
    ),
    Signature(
        id="warmup-oom",
        failure=_OOM,
        detect=_oom((Phase.WARMUP,), (Site.ACTIVATIONS,)),
        summary="The warm-up's forward pass did not fit beside weights and KV cache.",
        caution=_HOLDER,
    ),
    Signature(
        id="serving-oom",
        failure=_OOM,
        detect=_oom((Phase.SERVING,)),
        summary="A step of the model ran out of GPU memory while serving.",
        caution="One request may be the cause (log probabilities, images). " + _HOLDER,
    ),
    Signature(
        id="unplaced-oom",
        failure=_OOM,
        detect=_oom(nowhere=True),
        summary="GPU memory could not be had, and the log does not show the call stack.",
        caution="The phase is only where the log was last. " + _HOLDER,
        likely=True,
    ),
    Signature(
        id="memory-pool-oom",
        failure=_OOM,
        detect=Prints(
            ("CUDA Error: out of memory at ", "HIP Error: out of memory at "), levels=(None,)
        ),
        summary="vLLM's own memory pool (sleep mode) could not get GPU memory.",
        caution="Waking up is the usual moment: somebody took the memory while the engine slept.",
        likely=True,
    ),
    Signature(
        id="memory-taken-at-start",
        failure=Failure.GPU_MEMORY_TAKEN,
        detect=Raises("ValueError", "on startup is less than desired GPU memory utilization"),
        summary="Less GPU memory is free at the start than the utilization asks for.",
        caution="The holder may be an earlier engine that has not let go yet.",
        phase=Phase.INIT_DEVICE,
        since="0.9.1",
    ),
    Signature(
        id="budget-taken-at-start",
        failure=Failure.GPU_MEMORY_TAKEN,
        detect=Raises("ValueError", "on startup is less than the engine's budget after excluding"),
        summary="Beside externally held weights less GPU memory is free than the budget needs.",
        caution="The holder may be an earlier engine that has not let go yet.",
        phase=Phase.INIT_DEVICE,
        since="0.32.0",
    ),
    Signature(
        id="profiling-disturbed",
        failure=Failure.MEMORY_PROFILING_DISTURBED,
        detect=Raises("AssertionError", "Error in memory profiling"),
        summary="Another process gave GPU memory back while vLLM measured its own use.",
        caution="vLLM up to 0.15 also raises it when nothing changed at all.",
        phase=Phase.PROFILE,
    ),
    Signature(
        id="load-oom-message",
        failure=_OOM,
        detect=Prints(("Failed to load model - not enough GPU memory",), levels=("ERROR",)),
        summary="The model's weights do not fit into the GPU memory that was free.",
        caution="vLLM advises a lower utilization here; loading does not read it.",
        weight=Weight.RELAYED,
        phase=Phase.LOAD,
        site=Site.WEIGHTS,
        since="0.13.0",
    ),
)
