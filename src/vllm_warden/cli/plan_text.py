"""Writes a plan for people: the arithmetic as a table, the verdict, the limits, the layouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from vllm_warden.cli.render import Style, cut, harmless, wrapped
from vllm_warden.core.model import GIB
from vllm_warden.core.plan.memory_model.checkpoint import WeightSource
from vllm_warden.core.plan.memory_model.document import verdict_reason
from vllm_warden.core.plan.memory_model.layouts import LayoutVerdict
from vllm_warden.core.plan.memory_model.limits import Limits
from vllm_warden.core.plan.memory_model.term import Term
from vllm_warden.core.plan.memory_model.verdict import MemoryPlan, Wall
from vllm_warden.core.plan.memory_model.ways_out import WayOut
from vllm_warden.core.plan.memory_model.weights import weights_known

ABOUT_EQUAL = 0.05
ARCHITECTURE_MAX = 60


def plan_text(
    title: str,
    plan: MemoryPlan,
    limits: Limits,
    layouts: Sequence[LayoutVerdict],
    *,
    refused: Sequence[str],
    ways: Sequence[WayOut],
    style: Style,
) -> list[str]:
    """The whole answer; ``refused`` are vLLM's reasons against the layout that was asked."""
    return [
        *_head(title, plan, style),
        "",
        *_table(plan, style),
        "",
        *(_refused(refused, style) if refused else _verdict(plan, style)),
        *_ways(ways, style),
        *_cache(plan, style),
        *_limits(plan, limits, style),
        "",
        *_layouts(layouts, style),
    ]


def _head(title: str, plan: MemoryPlan, style: Style) -> Iterator[str]:
    setup = plan.setup
    shape, checkpoint = setup.model.shape, setup.model.checkpoint
    yield style.paint(cut(harmless(title), style.width), "bold")
    parts = [cut(harmless(shape.architecture), ARCHITECTURE_MAX) or "unknown architecture"]
    if shape.layers:
        parts.append(f"{shape.layers} layers")
    if shape.experts:
        parts.append(f"{shape.experts.count} experts")
    weights = weights_known(checkpoint, shape)
    if weights.total_bytes:
        has_files = checkpoint.files and weights.source is not WeightSource.CONFIG
        count = f" in {checkpoint.files} file{'s' if checkpoint.files > 1 else ''}"
        files = count if has_files else ""
        parts.append(f"{_gib(weights.total_bytes)} GiB{files} ({weights.source.value})")
    yield from wrapped(", ".join(parts), style, "  ", "  ")
    era = setup.era
    known = "" if era.is_known else " (the newest known; give --vllm for another)"
    options = setup.options
    gpu = _gib(setup.gpu.total_bytes)
    yield from wrapped(
        f"vLLM {era.name}{known}, {options.layout.name} on {options.layout.gpus} GPUs of {gpu} "
        f"GiB, max_model_len {options.max_model_len}, max_num_seqs {options.max_num_seqs}, "
        f"max_num_batched_tokens {options.max_num_batched_tokens}",
        style,
        "  ",
        "  ",
    )
    for doubt in shape.unknown:
        yield from wrapped(doubt, style, "    ", "  ! ")


def _table(plan: MemoryPlan, style: Style) -> Iterator[str]:
    rank = plan.worst.rank
    setup = plan.setup
    stages = len(plan.ranks)
    where = f", stage {rank.stage.number + 1} of {stages} (the fullest)" if stages > 1 else ""
    yield style.paint(f"Each GPU{where}", "cyan")
    yield f"  {'':<30}{'GiB':>8}{'+-':>7}  from"
    yield _row(f"budget: {setup.options.utilization:g} x total", rank.requested_bytes, 0, "", style)
    yield from (_term(term, "- ", style) for term in (rank.weights, rank.inside, rank.peak))
    if setup.era.is_nccl_inside:
        yield _term(rank.outside, "- ", style)
    yield _term(rank.graphs_budgeted, "- ", style)
    yield _term(rank.kv, "= ", style)
    yield f"  {'beside the budget':<30}"
    if not setup.era.is_nccl_inside:
        yield _term(rank.outside, "  ", style)
    yield _term(rank.graphs, "  ", style)


def _term(term: Term, sign: str, style: Style) -> str:
    source = f"{term.source.value}: {term.note}" if term.note else term.source.value
    return _row(sign + term.name, term.bytes, term.uncertainty_bytes, source, style)


def _row(name: str, size_bytes: int, uncertainty_bytes: int, source: str, style: Style) -> str:
    doubt = f"{uncertainty_bytes / GIB:.2f}" if uncertainty_bytes else ""
    line = f"  {name:<30}{size_bytes / GIB:>8.2f}{doubt:>7}  {source}"
    return cut(line.rstrip(), style.width)


def _refused(reasons: Sequence[str], style: Style) -> Iterator[str]:
    for reason in reasons:
        yield from _wrapped(f"vLLM refuses this layout: {reason}", style, "red", "bold")


def _verdict(plan: MemoryPlan, style: Style) -> Iterator[str]:
    wall = plan.worst.first_wall
    estimated = _estimated(plan)
    if wall is not None:
        doubt = "" if wall.is_certain else ", within what the terms may be off"
        text = f"does not fit: {wall.wall.value}; {_gib(-wall.spare_bytes)} GiB short{doubt}"
        yield from _wrapped(text + estimated, style, "red", "bold")
        return
    last = plan.worst.checks[-1]
    if any(not check.is_certain for check in plan.worst.checks):
        least = min(plan.worst.checks, key=lambda check: (check.is_certain, check.spare_bytes))
        text = f"fits, but narrowly: {least.wall.value} with {_gib(least.spare_bytes)} GiB to spare"
        if least.wall is Wall.AFTER_CACHE:
            text = (
                f"fits, but narrowly: {_gib(least.spare_bytes)} GiB beside the budget for CUDA "
                "graphs, the sampler and fragmentation, less than they may be off"
            )
        yield from _wrapped(text + estimated, style, "yellow", "bold")
        return
    text = f"fits; {_gib(last.spare_bytes)} GiB stay free{estimated}"
    yield from _wrapped(text, style, "yellow" if estimated else "green", "bold")


def _estimated(plan: MemoryPlan) -> str:
    """What a verdict rests on where the headers of the weights were not read."""
    weights = weights_known(plan.setup.model.checkpoint, plan.setup.model.shape)
    if not weights.is_estimated:
        return ""
    return (
        f", with weights of {_gib(weights.total_bytes)} GiB estimated from {weights.source.value}"
    )


def _ways(ways: Sequence[WayOut], style: Style) -> Iterator[str]:
    if ways:
        text = "would fit with one of: " + "; ".join(way.what for way in ways)
        yield from wrapped(text, style, "    ", "  ")


def _wrapped(text: str, style: Style, *looks: str) -> Iterator[str]:
    yield from (style.paint(line, *looks) for line in wrapped(text, style, "  "))


def _cache(plan: MemoryPlan, style: Style) -> Iterator[str]:
    worst = plan.worst
    if worst.request_bytes is None or worst.kv_tokens is None or worst.concurrency is None:
        yield "  KV cache: unknown, the shape of the model is not known"
        return
    length = plan.setup.options.max_model_len
    needs = worst.rank.kv_needs
    per_token = f", {needs.bytes_per_token / 1024:.1f} KiB a token" if needs else ""
    text = (
        f"KV cache: {worst.kv_tokens:,} tokens; {worst.concurrency:.2f} requests of {length:,} "
        f"tokens at once ({_gib(worst.request_bytes)} GiB each{per_token})"
    )
    yield from wrapped(text, style, "    ", "  ")


def _limits(plan: MemoryPlan, limits: Limits, style: Style) -> Iterator[str]:
    if limits.utilization is None:
        return
    asked = plan.setup.options.utilization
    remark = f", asked {asked:g}" if asked > limits.utilization else ""
    parts = [f"gpu_memory_utilization {limits.utilization:.4f}{remark}"]
    if limits.max_model_len:
        own = ", the model's own" if limits.is_length_of_model else ""
        parts.append(f"max_model_len {limits.max_model_len:,}{own}")
    if limits.max_num_seqs:
        parts.append(f"max_num_seqs {limits.max_num_seqs:,}")
    yield from wrapped("safe up to: " + "; ".join(parts), style, "    ", "  ")


def _layouts(layouts: Sequence[LayoutVerdict], style: Style) -> Iterator[str]:
    works = [verdict for verdict in layouts if verdict.works]
    yield style.paint("Layouts that fit", "cyan") + ("" if works else ": none")
    shown: set[tuple[object, ...]] = set()
    for verdict in sorted(works, key=lambda one: (one.layout.gpus, -_concurrency(one))):
        layout, twin = verdict.layout, _twin(verdict, works)
        key = (layout.tensor, layout.pipeline, layout.data)
        if twin and key in shown:
            continue
        shown.add(key)
        name = replace(layout, expert_parallel=False).name + " (or +EP)" if twin else layout.name
        weights = _gib(verdict.weights_bytes or 0)
        yield (
            f"  {name:<22}{layout.gpus:>2} GPUs{weights:>8} GiB of weights"
            f"{_concurrency(verdict):>8.2f} full requests"
        )
    yield style.paint("Others, and why not", "cyan")
    reasons: dict[str, list[str]] = {}
    for verdict in layouts:
        if not verdict.works:
            reasons.setdefault(verdict_reason(verdict), []).append(verdict.layout.name)
    for reason, names in reasons.items():
        yield from wrapped(f"{', '.join(names)}: {reason}", style, "      ", "  ")


def _twin(verdict: LayoutVerdict, works: Sequence[LayoutVerdict]) -> bool:
    """True when the same layout with, or without, expert parallelism is as good."""
    wanted = replace(verdict.layout, expert_parallel=not verdict.layout.expert_parallel)
    return any(
        other.layout == wanted and abs(_concurrency(other) - _concurrency(verdict)) < ABOUT_EQUAL
        for other in works
    )


def _concurrency(verdict: LayoutVerdict) -> float:
    plan = verdict.plan
    if plan is None or plan.worst.concurrency is None:
        return 0.0
    return plan.worst.concurrency * verdict.layout.data


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.1f}"
