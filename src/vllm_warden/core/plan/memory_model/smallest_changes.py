"""Puts into words which single changes would make a setup fit that does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vllm_warden.core.model import GIB, Settings
from vllm_warden.core.plan.memory_model.engine_options import read_options
from vllm_warden.core.plan.memory_model.era import era_of
from vllm_warden.core.plan.memory_model.estimate import GpuMemory, Setup
from vllm_warden.core.plan.memory_model.layout import WORLD_MAX
from vllm_warden.core.plan.memory_model.line_settings import line_settings
from vllm_warden.core.plan.memory_model.measured import Measured
from vllm_warden.core.plan.memory_model.model import Model
from vllm_warden.core.plan.memory_model.verdict import MemoryPlan, Wall, plan_memory
from vllm_warden.core.plan.memory_model.ways_out import WayOut, ways_out
from vllm_warden.core.plan.spec import EngineFacts, ModelFacts

TRIED_GPUS_MAX = 16
"""Layouts are tried for so many GPUs at most: a decision must not take a second."""
_ORDER = tuple(Wall)


@dataclass(frozen=True, slots=True)
class Question:
    """A setup as the daemon knows it. ``settings`` are those in force, with defaults where known.

    ``gpus`` are those of the host, ``others_bytes`` what was not free on the fullest of them.
    """

    settings: Settings
    extra_args: Sequence[str]
    model: ModelFacts
    engine: EngineFacts
    gpu_total_bytes: int
    gpus: int
    others_bytes: int = 0
    measured: Measured = field(default_factory=Measured)


@dataclass(frozen=True, slots=True)
class Answer:
    """``ways`` is empty where no single change helps on this host."""

    ways: tuple[WayOut, ...]
    host: str


def smallest_changes(question: Question, died_at: Wall) -> Answer | None:
    """Cheapest first; None where the arithmetic is not sure, or would have let the engine pass.

    ``died_at`` is what the engine ran into. Where the arithmetic sees room at that point the log
    is right and the arithmetic is not, so that nothing it computes is worth telling.
    """
    model = question.model.for_memory
    if model is None or not model.shape.is_known or not model.checkpoint.total_bytes:
        return None
    setup = _setup(question, model)
    if setup.options.layout.gpus > WORLD_MAX:
        return None
    plan = plan_memory(setup)
    wall = plan.worst.first_wall
    if wall is None or _ORDER.index(wall.wall) > _ORDER.index(died_at):
        return None
    gpus = min(max(question.gpus, plan.setup.options.layout.gpus), TRIED_GPUS_MAX)
    return Answer(ways_out(plan, gpus), _host(plan, gpus))


def _setup(question: Question, model: Model) -> Setup:
    settings = {**line_settings(question.extra_args), **question.settings}
    total = question.gpu_total_bytes
    options = read_options(settings, model.shape, question.engine, total)
    gpu = GpuMemory(total, question.others_bytes)
    return Setup(model, options, gpu, era_of(question.engine), question.measured)


def _host(plan: MemoryPlan, gpus: int) -> str:
    size = f"{plan.setup.gpu.total_bytes / GIB:.1f} GiB"
    return f"{gpus} GPUs of {size}" if gpus > 1 else f"one GPU of {size}"


def in_words(way: WayOut) -> str:
    """One line, with the options by their names."""
    settings = way.settings
    if "tensor_parallel_size" not in settings:
        return way.what
    parts = [f"tensor_parallel_size {settings['tensor_parallel_size']}"]
    others = ("pipeline_parallel_size", "data_parallel_size")
    parts += [f"{name} {settings[name]}" for name in others if settings.get(name) != 1]
    experts = " with expert parallel" if settings.get("enable_expert_parallel") else ""
    layout, _, gpus = way.what.partition(" ")
    return f"{layout}: {', '.join(parts)}{experts} {gpus}"


def none_in_words(answer: Answer) -> str:
    """What to say where there is no way out."""
    return (
        f"no single change of the settings makes it fit on {answer.host}: "
        "it needs more or larger GPUs, or a smaller model"
    )
