"""KV caches that would be too small for what was asked."""

from __future__ import annotations

from vllm_warden.core.diagnose.detect import Raises
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Failure, Phase, Site

_SMALL = Failure.KV_CACHE_TOO_SMALL
_PLAN = "Planned, not allocated: nothing is known of the memory that is free by now."

SIGNATURES = (
    Signature(
        id="no-cache-blocks",
        failure=_SMALL,
        detect=Raises("", "No available memory for the cache blocks"),
        summary="The memory budget leaves nothing for a KV cache.",
        caution=_PLAN,
        phase=Phase.KV_PLAN,
        site=Site.KV_CACHE,
    ),
    Signature(
        id="request-exceeds-cache",
        failure=_SMALL,
        detect=Raises("", "To serve at least one request with the model"),
        summary="The KV cache cannot hold one request of the maximum length.",
        caution=_PLAN,
        phase=Phase.KV_PLAN,
        site=Site.KV_CACHE,
    ),
    Signature(
        id="host-budget-used-up",
        failure=_SMALL,
        detect=Raises(
            "ValueError", "on kv cache allocation is less than requested memory for kv (-"
        ),
        summary="The CPU engine's memory budget leaves nothing for a KV cache.",
        caution="Host memory may be free; it is the budget that is used up.",
        phase=Phase.KV_PLAN,
        site=Site.KV_CACHE,
    ),
    Signature(
        id="max-len-exceeds-cache",
        failure=_SMALL,
        detect=Raises(
            "", "is larger than the maximum number of tokens that can be stored in KV cache"
        ),
        summary="The KV cache cannot hold one request of the maximum length.",
        caution=_PLAN,
        phase=Phase.KV_PLAN,
        site=Site.KV_CACHE,
    ),
    Signature(
        id="no-length-fits",
        failure=_SMALL,
        detect=Raises("", "Cannot auto-fit max_model_len"),
        summary="Not even one token fits into the memory left for the KV cache.",
        caution=_PLAN,
        phase=Phase.KV_PLAN,
        site=Site.KV_CACHE,
        since="0.14.1",
    ),
    Signature(
        id="too-few-mamba-blocks",
        failure=_SMALL,
        detect=Raises("", "exceeds available Mamba cache blocks"),
        summary="There are fewer Mamba state blocks than concurrent sequences asked for.",
        caution="Only for hybrid models; the attention cache may be large enough.",
        phase=Phase.CUDAGRAPH,
        site=Site.KV_CACHE,
        since="0.20.0",
    ),
)
