"""The numbers of a model that memory and parallelism depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto


class LayerKind(Enum):
    """What a layer keeps for each sequence."""

    FULL = auto()
    """Keys and values of every token."""
    SLIDING = auto()
    """Keys and values of the last ``sliding_window`` tokens."""
    STATE = auto()
    """A state of fixed size (Mamba, gated delta net)."""
    NONE = auto()
    """Nothing that grows with the text (a feed-forward layer, attention to an image)."""


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention: one compressed vector a token instead of keys and values."""

    kv_lora_rank: int
    q_lora_rank: int
    nope_head_dim: int
    rope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True)
class StateShape:
    """The state of one layer: a convolution window and one matrix a head.

    ``channels`` are the convolution's channels that follow the heads, ``group_channels`` those
    that belong to each of ``groups``.
    """

    heads: int
    head_dim: int
    state_size: int
    conv_kernel: int
    channels: int
    groups: int
    group_channels: int
    value_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Quantization:
    """How the weights are stored. ``block`` (rows, columns) and ``group_size`` are 0 if unused."""

    method: str
    bits: int = 16
    block: tuple[int, int] = (0, 0)
    group_size: int = 0
    kv_cache_bits: int = 0


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of a mixture; ``layers`` are the layers that have them."""

    count: int
    per_token: int
    intermediate: int
    shared: int = 0
    layers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Read from config.json; 0 is unknown. ``unknown`` says in words what could not be read."""

    architecture: str = ""
    hidden: int = 0
    intermediate: int = 0
    layers: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    vocab: int = 0
    max_position: int = 0
    rotary_dim: int = 0
    tied_embeddings: bool = False
    value_bytes: int = 2
    kinds: tuple[LayerKind, ...] = ()
    sliding_window: int = 0
    latent: LatentAttention | None = None
    state: StateShape | None = None
    experts: Experts | None = None
    quantization: Quantization | None = None
    draft_layers: int = 0
    has_vision: bool = False
    unknown: tuple[str, ...] = field(default=())

    @property
    def is_known(self) -> bool:
        """True when the arithmetic has all it needs."""
        return bool(self.hidden and self.layers and self.heads and self.vocab)
