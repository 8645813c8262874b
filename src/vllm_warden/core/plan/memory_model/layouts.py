"""All ways to spread a model over the GPUs of a host, each with its verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from vllm_warden.core.plan.memory_model.estimate import Setup
from vllm_warden.core.plan.memory_model.layout import Layout
from vllm_warden.core.plan.memory_model.layout_rules import refusals
from vllm_warden.core.plan.memory_model.same_load import still_measured
from vllm_warden.core.plan.memory_model.verdict import MemoryPlan, Wall, plan_memory


@dataclass(frozen=True, slots=True)
class LayoutVerdict:
    """``refused`` are vLLM's own reasons; ``plan`` is there where it has none.

    ``weights_bytes`` are those of the fullest GPU, also where they do not fit.
    """

    layout: Layout
    refused: tuple[str, ...]
    weights_bytes: int | None = None
    plan: MemoryPlan | None = None

    @property
    def works(self) -> bool:
        return self.plan is not None and self.plan.fits

    @property
    def is_valid(self) -> bool:
        """VLLM accepts it, and the weights fit; the rest is a matter of settings."""
        wall = self.plan.worst.first_wall if self.plan else None
        return self.plan is not None and (wall is None or wall.wall is not Wall.WEIGHTS)


def all_layouts(setup: Setup, gpus: int) -> tuple[LayoutVerdict, ...]:
    """Every TP x PP x DP within the GPUs, with and without expert parallelism where it differs."""
    layouts = candidates(gpus, has_experts=setup.model.shape.experts is not None)
    return tuple(judge_layout(setup, layout, gpus) for layout in layouts)


def judge_layout(setup: Setup, layout: Layout, gpus: int) -> LayoutVerdict:
    refused = refusals(setup.model.shape, layout, gpus)
    if refused:
        return LayoutVerdict(layout, refused)
    options = replace(setup.options, layout=layout)
    seen = still_measured(setup.measured, setup.options, options)
    plan = plan_memory(replace(setup, options=options, measured=seen))
    weights = max(one.rank.weights.bytes for one in plan.ranks)
    return LayoutVerdict(layout, (), weights, plan)


def candidates(gpus: int, *, has_experts: bool) -> Iterator[Layout]:
    """Every split of at most so many GPUs, unjudged."""
    for tensor in range(1, gpus + 1):
        for pipeline in range(1, gpus // tensor + 1):
            for data in range(1, gpus // (tensor * pipeline) + 1):
                yield Layout(tensor, pipeline, data)
                if has_experts and tensor * data > 1:
                    yield Layout(tensor, pipeline, data, expert_parallel=True)
