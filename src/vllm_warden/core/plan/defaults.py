"""vLLM's own defaults of the settings that decisions turn on, by version and device.

Read from ``get_batch_defaults`` (engine/arg_utils.py) and config/cache.py of vLLM 0.8.5 to 0.33.
"""

from __future__ import annotations

from collections.abc import Sequence

from vllm_warden.core.model import GIB, Settings
from vllm_warden.core.plan.command_line import version_of
from vllm_warden.core.plan.spec import EngineFacts

UTILIZATION_RAISED_SINCE = (0, 20)
"""vLLM 0.20 raised the default gpu_memory_utilization from 0.90 to 0.92."""
LARGE_DEVICE_TOKENS_SINCE = (0, 28)
"""vLLM 0.28 doubled max_num_batched_tokens of devices with 160 GiB and more to 16384."""


def world_size(settings: Settings) -> int:
    """GPUs of one engine: tensor times pipeline parallel, times the data parallel replicas."""
    size = 1
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"):
        value = settings.get(name, 1)
        if isinstance(value, int) and value > 0:
            size *= value
    return size


def engine_defaults(
    settings: Settings, facts: EngineFacts, gpu_names: Sequence[str], gpu_total_bytes: int | None
) -> dict[str, int | float]:
    """max_num_seqs, max_num_batched_tokens and gpu_memory_utilization as vLLM would choose.

    ``gpu_total_bytes`` is the smallest GPU of the instance, None when unknown (small tier).
    """
    version = version_of(facts)
    utilization = 0.92 if version is None or version >= UTILIZATION_RAISED_SINCE else 0.90
    if not gpu_names:
        ranks = world_size(settings)
        sequences, tokens = 128 * ranks, 2048 * ranks
    elif (
        gpu_total_bytes is not None
        and gpu_total_bytes >= 70 * GIB
        and not any("a100" in name.lower() for name in gpu_names)
    ):
        large = gpu_total_bytes >= 160 * GIB and (
            version is None or version >= LARGE_DEVICE_TOKENS_SINCE
        )
        sequences, tokens = 1024, 16384 if large else 8192
    else:
        sequences, tokens = 256, 2048
    asked_tokens = settings.get("max_num_batched_tokens")
    if isinstance(asked_tokens, int):
        # vLLM refuses fewer tokens than sequences, and lowers its own default to fit
        sequences = min(sequences, asked_tokens)
    return {
        "max_num_seqs": sequences,
        "max_num_batched_tokens": tokens,
        "gpu_memory_utilization": utilization,
    }
