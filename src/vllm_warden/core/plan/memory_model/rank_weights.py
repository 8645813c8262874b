"""How many bytes of a checkpoint end up on one rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vllm_warden.core.plan.memory_model.checkpoint import BITS, TensorGroup
from vllm_warden.core.plan.memory_model.layout import Layout, stage_layers
from vllm_warden.core.plan.memory_model.model_shape import ModelShape
from vllm_warden.core.plan.memory_model.roles import Role, is_outside, is_scale, role_of

VOCABULARY_PADDING = 64
"""vLLM 0.8 to 0.33 pad the vocabulary to a multiple of this (DEFAULT_VOCAB_PADDING_SIZE)."""
WIDE_FLOATS = frozenset({"F32", "F64"})
CAST = frozenset({Role.EMBEDDING, Role.HEAD, Role.SPLIT, Role.KEY_VALUE, Role.STATE_SPACE})
ONLINE_BITS = {"fp8": 8, "bitsandbytes": 4, "experts_int8": 8}
"""``--quantization`` on a checkpoint stored in 16 bit: what its linear layers shrink to."""
LINEAR = frozenset({Role.SPLIT, Role.KEY_VALUE, Role.EXPERT})


@dataclass(frozen=True, slots=True)
class Load:
    """What decides how a checkpoint is loaded: the spread, and the options that change bytes."""

    layout: Layout
    quantization: str = ""
    with_drafts: bool = False


@dataclass(frozen=True, slots=True)
class StageWeights:
    """Bytes of one rank of one pipeline stage."""

    stage: int
    layers: range
    bytes: int


def stage_weights(
    groups: Iterable[TensorGroup], shape: ModelShape, load: Load
) -> tuple[StageWeights, ...]:
    """Bytes on the fullest rank of every pipeline stage."""
    stages = stage_layers(shape.layers, load.layout.pipeline)
    totals = [0] * len(stages)
    for group in groups:
        role = role_of(group.name)
        if role is Role.IGNORED or (role is Role.HEAD and shape.tied_embeddings):
            continue
        size = _rank_bytes(group, role, shape, load)
        for number, copies in _copies(group, role, shape, stages, load):
            totals[number] += size * copies
    return tuple(
        StageWeights(number, layers, totals[number]) for number, layers in enumerate(stages)
    )


def _copies(
    group: TensorGroup, role: Role, shape: ModelShape, stages: tuple[range, ...], load: Load
) -> Iterator[tuple[int, int]]:
    """The stages that have the tensor, and in how many of their layers."""
    last = len(stages) - 1
    if is_outside(group.name):
        yield 0, max(1, len(group.layers))
    elif role is Role.DRAFT:
        yield last, max(1, len(group.layers)) if load.with_drafts else 0
    elif group.layers:
        for number, layers in enumerate(stages):
            whole = layers.start <= group.layers[0] and group.layers[-1] < layers.stop
            inside = len(group.layers) if whole else sum(one in layers for one in group.layers)
            yield number, inside
        if load.with_drafts:
            yield last, sum(layer >= shape.layers for layer in group.layers)
    elif role is Role.EMBEDDING:
        yield 0, 1
        if shape.tied_embeddings and last:
            yield last, 1
    else:
        yield (last if role in {Role.HEAD, Role.FINAL} else 0), 1


def _rank_bytes(group: TensorGroup, role: Role, shape: ModelShape, load: Load) -> int:
    """Bytes of the group on its fullest rank."""
    layout = load.layout
    total = _loaded_bytes(group, role, shape, load)
    if role in {Role.EMBEDDING, Role.HEAD} and group.shape:
        rows = padded(group.shape[0], VOCABULARY_PADDING)
        return total * rows // max(1, group.shape[0]) * group.count // layout.tensor
    if role is Role.EXPERT:
        return _expert_bytes(total, group, shape, layout)
    if role is Role.KEY_VALUE:
        heads = shape.kv_heads if not is_outside(group.name) else layout.tensor
        return total * group.count // min(layout.tensor, max(1, heads))
    if role is Role.STATE_SPACE:
        return int(total * _state_share(group, shape, layout.tensor)) * group.count
    return total * group.count // (layout.tensor if role is Role.SPLIT else 1)


def _expert_bytes(total: int, group: TensorGroup, shape: ModelShape, layout: Layout) -> int:
    experts = shape.experts.count if shape.experts else group.count
    if not layout.expert_parallel:
        return total * group.count // layout.expert_shards
    # one tensor for all experts has them along its first axis
    dealt = -(-experts // layout.expert_shards)
    return total * group.count * dealt // experts


def _state_share(group: TensorGroup, shape: ModelShape, tensor: int) -> float:
    """Mamba-2 cuts by heads; a single group is repeated on each rank (MambaMixer2, vLLM 0.10+)."""
    state = shape.state
    if state is None or not state.groups or state.groups % tensor == 0 or not group.shape:
        return 1 / tensor
    grouped = state.groups * state.group_channels
    return ((group.shape[0] - grouped) / tensor + grouped) / group.shape[0]


def _loaded_bytes(group: TensorGroup, role: Role, shape: ModelShape, load: Load) -> int:
    """Bytes of one tensor in the engine: wide floats are cast, online quantization shrinks."""
    bits = BITS[group.dtype]
    is_float = group.dtype in {"F32", "F64", "F16", "BF16"}
    if not is_float or is_scale(group.name) or shape.quantization is not None:
        return group.bytes
    online = ONLINE_BITS.get(load.quantization)
    if online and role in LINEAR and len(group.shape) > 1 and not is_outside(group.name):
        return group.bytes * online // bits
    if group.dtype in WIDE_FLOATS and (role in CAST or role is Role.EXPERT):
        return group.bytes * 8 * shape.value_bytes // bits
    return group.bytes


def padded(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
