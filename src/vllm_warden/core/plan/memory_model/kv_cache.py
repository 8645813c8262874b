"""Bytes of keys and values: of a block, of one request of a given length, of a whole cache."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.plan.memory_model.engine_options import EngineOptions
from vllm_warden.core.plan.memory_model.model_shape import LayerKind, ModelShape
from vllm_warden.core.plan.memory_model.state_page import state_page_bytes

UNEVEN_GROUPS_FRACTION = 1.25
"""vLLM 0.11+ makes groups of the larger kind when the kinds differ by less (kv_cache_utils)."""
HYBRID_BLOCK_MULTIPLE = 16
"""Hybrid models get attention blocks as large as a state, rounded up to the kernel's multiple."""


@dataclass(frozen=True, slots=True)
class KvGroup:
    """Layers that are handed blocks together; ``window`` 0 keeps all tokens."""

    kind: LayerKind
    groups: int
    window: int = 0


@dataclass(frozen=True, slots=True)
class KvNeeds:
    """The cache of one rank. A block of any group has ``block_bytes`` bytes.

    ``bytes_per_token`` is what one token more costs a request that is longer than the windows.
    """

    block_tokens: int
    block_bytes: int
    groups: tuple[KvGroup, ...]
    batch_tokens: int
    speculative_tokens: int = 0

    @property
    def bytes_per_token(self) -> float:
        full = sum(group.groups for group in self.groups if group.kind is LayerKind.FULL)
        return full * self.block_bytes / self.block_tokens

    def request_blocks(self, tokens: int) -> int:
        """Blocks of one request of that length (``max_memory_usage_bytes`` of vLLM's specs)."""
        return sum(group.groups * self._blocks(group, tokens) for group in self.groups)

    def request_bytes(self, tokens: int) -> int:
        return self.request_blocks(tokens) * self.block_bytes

    def _blocks(self, group: KvGroup, tokens: int) -> int:
        if group.kind is LayerKind.STATE:
            return 1 + self.speculative_tokens
        if group.kind is LayerKind.SLIDING:
            kept = min(group.window - 1 + self.batch_tokens, tokens)
            return min(_ceil(kept, self.block_tokens) + 1, _ceil(tokens, self.block_tokens) + 1)
        return _ceil(tokens, self.block_tokens)

    def blocks(self, available_bytes: int) -> int:
        return max(0, available_bytes) // self.block_bytes if self.block_bytes else 0

    def tokens(self, available_bytes: int, request_tokens: int) -> int:
        """Tokens that the cache holds in requests of that length (vLLM's "KV cache size")."""
        blocks, need = self.blocks(available_bytes), self.request_blocks(request_tokens)
        if len(self.groups) == 1 and self.groups[0].kind is LayerKind.FULL:
            return blocks * self.block_tokens
        return blocks * request_tokens // need if need else 0

    def longest(self, available_bytes: int, limit: int) -> int:
        """The longest single request that fits, 0 when none does."""
        blocks = self.blocks(available_bytes)
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.request_blocks(middle) <= blocks:
                low = middle
            else:
                high = middle - 1
        return low


def kv_needs(shape: ModelShape, options: EngineOptions, layers: range) -> KvNeeds | None:
    """The cache of a rank that has these layers; None where the shape is not known.

    As ``get_kv_cache_groups`` of vLLM 0.11 to 0.33: layers of one kind share a group, all groups
    have the same number of layers, and a block holds one page of each of them.
    """
    if not shape.is_known or not layers:
        return None
    kinds = [shape.kinds[layer] for layer in layers if layer < len(shape.kinds)]
    counts = {
        kind: kinds.count(kind) for kind in dict.fromkeys(kinds) if kind is not LayerKind.NONE
    }
    if not counts:
        return None
    per_token = token_bytes(shape, options)
    block_tokens, page = options.block_tokens, options.block_tokens * per_token
    if LayerKind.STATE in counts:
        state = state_page_bytes(shape, options)
        if len(counts) == 1:
            page = state
        elif state > page and per_token:
            block_tokens = HYBRID_BLOCK_MULTIPLE * _ceil(state, HYBRID_BLOCK_MULTIPLE * per_token)
            page = block_tokens * per_token
    size = _group_size(tuple(counts.values()))
    return KvNeeds(
        block_tokens=block_tokens,
        block_bytes=page * size,
        groups=tuple(
            KvGroup(kind, _ceil(count, size), shape.sliding_window)
            for kind, count in counts.items()
        ),
        batch_tokens=options.max_num_batched_tokens,
        speculative_tokens=options.speculative_tokens,
    )


def token_bytes(shape: ModelShape, options: EngineOptions) -> int:
    """One token in one layer of one rank.

    Heads are dealt out over the ranks, but each rank has at least one; MLA keeps one compressed
    vector, whole on each rank.
    """
    if shape.latent is not None:
        width = shape.latent.kv_lora_rank + shape.latent.rope_head_dim
        return width * options.kv_value_bytes
    heads = max(1, shape.kv_heads // options.layout.tensor)
    return 2 * heads * shape.head_dim * options.kv_value_bytes


def _group_size(counts: tuple[int, ...]) -> int:
    least, most = min(counts), max(counts)
    return most if most < least * UNEVEN_GROUPS_FRACTION else least


def _ceil(value: int, divisor: int) -> int:
    return -(-value // divisor)
