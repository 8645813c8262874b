"""All rows of the failure catalogue; of rows that match the same text the first one decides."""

from __future__ import annotations

from vllm_warden.core.diagnose.catalogue import (
    arguments,
    consequences,
    gpu_faults,
    gpu_memory,
    host_limits,
    host_memory,
    installs,
    kernels,
    kv_cache,
    layouts,
    models,
    neighbours,
    options,
    processes,
    requests,
    stalls,
)
from vllm_warden.core.diagnose.signature import Signature

SIGNATURES: tuple[Signature, ...] = (
    *host_limits.SIGNATURES,
    *gpu_memory.SIGNATURES,
    *kv_cache.SIGNATURES,
    *host_memory.SIGNATURES,
    *layouts.SIGNATURES,
    *options.SIGNATURES,
    *arguments.SIGNATURES,
    *models.SIGNATURES,
    *neighbours.SIGNATURES,
    *requests.SIGNATURES,
    *gpu_faults.SIGNATURES,
    *processes.SIGNATURES,
    *stalls.SIGNATURES,
    *installs.SIGNATURES,
    *kernels.SIGNATURES,
    *arguments.LAST,
    *host_limits.LAST,
    *options.LAST,
    *requests.LAST,
    *consequences.SIGNATURES,
)
