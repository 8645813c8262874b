"""How one model is spread over GPUs: tensor, pipeline, data and expert parallel."""

from __future__ import annotations

from dataclasses import dataclass

WORLD_MAX = 64
"""No host has more GPUs; a layout of more is a slip of the pen."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes as vLLM's options name them; ``expert_parallel`` is ``--enable-expert-parallel``."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert_parallel: bool = False

    @property
    def gpus(self) -> int:
        return self.tensor * self.pipeline * self.data

    @property
    def expert_shards(self) -> int:
        """Ranks that share the experts of one stage: TP x DP, with and without expert parallel.

        vLLM 0.9 to 0.33: without the flag each expert is cut over TP x DP, with it whole experts
        are dealt out.
        """
        return self.tensor * self.data

    @property
    def name(self) -> str:
        """Short form: ``TP2xDP4+EP``."""
        sizes = (("TP", self.tensor), ("PP", self.pipeline), ("DP", self.data))
        parts = [f"{letter}{size}" for letter, size in sizes if size > 1] or ["TP1"]
        return "x".join(parts) + ("+EP" if self.expert_parallel else "")


def stage_layers(layers: int, stages: int) -> tuple[range, ...]:
    """The layers of each pipeline stage.

    As ``get_pp_indices`` of vLLM 0.8 to 0.33: the remainder goes to the stages before the last
    one, from the back, because the last one has the output layer.
    """
    counts = [layers // stages] * stages
    for position in range(2, layers % stages + 2):
        counts[-position] += 1
    starts = [sum(counts[:index]) for index in range(stages)]
    return tuple(range(start, start + count) for start, count in zip(starts, counts, strict=True))
