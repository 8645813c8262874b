"""All rows of the failure catalogue, in the order of their files."""

from __future__ import annotations

from vllm_warden.core.diagnose.catalogue import (
    arguments,
    consequences,
    gpu_memory,
    host_memory,
    kv_cache,
    processes,
)
from vllm_warden.core.diagnose.signature import Signature

SIGNATURES: tuple[Signature, ...] = (
    *gpu_memory.SIGNATURES,
    *kv_cache.SIGNATURES,
    *host_memory.SIGNATURES,
    *arguments.SIGNATURES,
    *processes.SIGNATURES,
    *consequences.SIGNATURES,
)
