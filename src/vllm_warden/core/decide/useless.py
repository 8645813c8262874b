"""Knobs that people turn where they do not help, with the reason why not."""

from __future__ import annotations

from vllm_warden.core.decide.decision import Useless

SEQUENCES_ALONE = Useless(
    "max_num_seqs",
    "alone it frees nothing after the KV cache exists: vLLM gives the freed bytes to the cache",
)
CACHE_IGNORES_LENGTH = Useless("max_model_len", "the size of the KV cache does not depend on it")
PEAK_IGNORES_LENGTH = Useless(
    "max_model_len", "neither weights nor the profiled batch depend on it"
)
UTILIZATION_SIZES_KV = Useless(
    "gpu_memory_utilization",
    "it only sizes the KV cache, which does not exist yet in this phase",
)
LOWER_UTILIZATION = Useless(
    "gpu_memory_utilization", "lowering it makes the KV cache smaller: the opposite of what helps"
)
