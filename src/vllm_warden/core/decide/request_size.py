"""Bytes of the KV cache for one token and for one request of the full context.

What the engine printed counts before what the model's shape gives; shapes know nothing of
sliding windows, latent attention or quantised caches.
"""

from __future__ import annotations

from vllm_warden.core.decide.case import Case

TWO_BYTES = 2
"""bf16, the cache's usual type (kv_cache_dtype = "auto")."""


def token_bytes(case: Case) -> float | None:
    """Per GPU; None where neither log nor shape tells it."""
    available, tokens = case.figure("available_kv_bytes"), case.figure("kv_tokens")
    if available and tokens:
        return available / tokens
    needed, length = case.figure("needed_bytes"), case.figure("max_model_len")
    if needed and length:
        return needed / length
    return _by_shape(case)


def request_of(case: Case) -> float:
    """One request of max_model_len; 0 where nothing is known of it."""
    needed = case.figure("needed_bytes")
    if needed is not None:
        return needed
    length, token = case.now("max_model_len"), token_bytes(case)
    return length * token if length and token else 0.0


def _by_shape(case: Case) -> float | None:
    """2 (key and value) x KV heads of this rank x head size x layers of this rank x bytes."""
    model = case.model
    if model.layers is None or model.kv_heads is None or model.head_dim is None:
        return None
    heads = max(1, model.kv_heads // _ranks(case, "tensor_parallel_size"))
    layers = -(-model.layers // _ranks(case, "pipeline_parallel_size"))
    size = 1 if str(case.in_force.get("kv_cache_dtype", "")).startswith("fp8") else TWO_BYTES
    return 2.0 * heads * model.head_dim * layers * size


def _ranks(case: Case, name: str) -> int:
    value = case.in_force.get(name, 1)
    return value if isinstance(value, int) and value > 0 else 1
