"""Whether an instance may be launched now; asked before every launch, first or repeated.

A closed gate always says what it waits for and who holds it. Unknown never means free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from vllm_warden.core.model import GIB, GpuReading, RemainingProcess
from vllm_warden.core.plan.memory_model.smallest_changes import (
    Question,
    in_words,
    none_in_words,
    smallest_changes,
)
from vllm_warden.core.plan.memory_model.verdict import Wall
from vllm_warden.core.plan.returning import Returning
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec, ModelFacts

SPARE_BYTES = GIB
"""Room beside the weights for CUDA context and NCCL buffers."""
FOREIGN_HOLD_SECONDS = 1800.0
"""A foreign process is waited for this long, then the instance is held (never killed)."""
OWN_REMAINS_HOLD_SECONDS = 60.0
SHOWN_MAX = 8
OWNERLESS_HOLD_SECONDS = 600.0
"""The driver takes seconds to free the memory of a process that was killed, at times minutes."""
DRIVER_BYTES = GIB
"""At most so much the driver itself uses of a GPU beside what it counts as reserved."""
LOADED_OTHERWISE = frozenset({"quantization", "cpu_offload_gb", "load_format", "hf_overrides"})
"""Engine options with which the GPUs hold other bytes than the checkpoint's files."""


@dataclass(frozen=True, slots=True)
class WorldFault:
    """Something outside the configuration's text that keeps an instance from starting."""

    key: str
    reason: str
    hopeless: bool


@dataclass(frozen=True, slots=True)
class GateReport:
    """What the shell saw when it looked: facts only, no opinion.

    ``gpus`` are readings of all GPUs of the host; ``gpus_problem`` says why there are none.
    ``own_remains`` are processes of earlier attempts of this daemon, ``starting`` other instances
    whose start occupies a slot when no slot is free.
    """

    faults: tuple[WorldFault, ...] = ()
    gpus: tuple[GpuReading, ...] = ()
    gpus_problem: str | None = None
    port_holder: str | None = None
    own_remains: tuple[RemainingProcess, ...] = ()
    starting: tuple[str, ...] = ()
    engine: EngineFacts = field(default_factory=EngineFacts)
    model: ModelFacts = field(default_factory=ModelFacts)


class Gate(Enum):
    OPEN = auto()
    WAIT = auto()
    HOLD = auto()
    FAIL = auto()


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Open, wait, hold or fail, with one sentence that names what is missing and who has it.

    ``may_pass_soon``: it waits for what a dead engine leaves, which goes within seconds.
    """

    gate: Gate
    text: str = ""
    kill_remains: bool = False
    may_pass_soon: bool = False
    gpu_indices: tuple[int, ...] = ()
    gpu_uuids: tuple[str, ...] = ()


def judge_gate(
    spec: InstanceSpec,
    report: GateReport,
    utilization: float | None,
    waited_seconds: float,
    returning: Returning | None = None,
) -> GateVerdict:
    """The first thing that is not right decides; the order is from hopeless to passing.

    As long as memory is ``returning`` nothing is held for want of it.
    """
    closed = _before_gpus(spec, report, waited_seconds)
    if closed is not None:
        return closed
    if not spec.gpus:
        return GateVerdict(Gate.OPEN)
    if report.gpus_problem is not None:
        return GateVerdict(Gate.WAIT, f"the GPUs cannot be read: {report.gpus_problem}")
    return _gpus(spec, report, utilization, waited_seconds, returning)


def _before_gpus(
    spec: InstanceSpec, report: GateReport, waited_seconds: float
) -> GateVerdict | None:
    for fault in sorted(report.faults, key=lambda fault: not fault.hopeless):
        gate = Gate.FAIL if fault.hopeless else Gate.WAIT
        return GateVerdict(gate, f"{fault.key}: {fault.reason}")
    if report.own_remains:
        return _own_remains(report.own_remains, waited_seconds)
    if report.port_holder is not None:
        return GateVerdict(Gate.WAIT, f"port {spec.port} is taken: {report.port_holder}")
    if report.starting:
        names = ", ".join(report.starting)
        return GateVerdict(Gate.WAIT, f"other starts are under way: {names}")
    return None


def _own_remains(remains: tuple[RemainingProcess, ...], waited_seconds: float) -> GateVerdict:
    shown = remains_text(remains)
    if waited_seconds > OWN_REMAINS_HOLD_SECONDS:
        text = f"processes of an earlier attempt cannot be ended: {shown}"
        return GateVerdict(Gate.HOLD, text)
    text = f"ending processes of an earlier attempt: {shown}"
    return GateVerdict(Gate.WAIT, text, kill_remains=True, may_pass_soon=True)


def remains_text(remains: Sequence[RemainingProcess]) -> str:
    """Who was killed and is still there, and what would end those that no signal reaches."""
    shown = ", ".join(_remaining(one) for one in remains[:SHOWN_MAX])
    if len(remains) > SHOWN_MAX:
        shown += f" and {len(remains) - SHOWN_MAX} more"
    if any(one.waits_in is not None for one in remains):
        shown += "; no signal reaches a process that waits in the kernel (state D): if it does not "
        shown += "come out by itself, only a reset of its device or a reboot frees what it holds"
    return shown


def _remaining(one: RemainingProcess) -> str:
    notes = [one.name] if one.name else []
    if one.waits_in is not None:
        notes.append(f"waits in the kernel {one.waits_in}".rstrip())
    return f"{one.pid} ({', '.join(notes)})" if notes else str(one.pid)


def _gpus(
    spec: InstanceSpec,
    report: GateReport,
    utilization: float | None,
    waited_seconds: float,
    returning: Returning | None,
) -> GateVerdict:
    by_key: Mapping[int | str, GpuReading] = {
        **{gpu.index: gpu for gpu in report.gpus},
        **{gpu.uuid: gpu for gpu in report.gpus},
    }
    missing = [str(key) for key in spec.gpus if key not in by_key]
    if missing:
        there = ", ".join(str(gpu.index) for gpu in report.gpus) or "none"
        return GateVerdict(
            Gate.WAIT, f"GPU {', '.join(missing)} does not exist here (there are: {there})"
        )
    chosen = tuple(by_key[key] for key in spec.gpus)
    for gpu in chosen:
        if gpu.error is not None:
            return _unreadable(gpu)
    weights = weights_per_gpu(spec, report.model)
    for gpu in chosen:
        if weights + SPARE_BYTES > gpu.total_bytes:
            return _too_large(spec, report, gpu)
        needed = needed_bytes(gpu, utilization, weights)
        if needed > gpu.cuda_total_bytes:
            asked = f"gpu_memory_utilization {utilization:g} asks for {_gib(needed)}"
            text = f"{asked} of GPU {gpu.index}, which has {_gib(gpu.cuda_total_bytes)} in all"
            return GateVerdict(Gate.FAIL, text)
        if gpu.free_bytes < needed:
            return _short(gpu, needed, waited_seconds, returning)
    return GateVerdict(
        Gate.OPEN,
        gpu_indices=tuple(gpu.index for gpu in chosen),
        gpu_uuids=tuple(gpu.uuid for gpu in chosen),
    )


def _unreadable(gpu: GpuReading) -> GateVerdict:
    if gpu.lost:
        text = f"GPU {gpu.index} is lost ({gpu.error}): only a reset or a reboot brings it back"
        return GateVerdict(Gate.HOLD, text)
    return GateVerdict(Gate.WAIT, f"GPU {gpu.index} cannot be read: {gpu.error}")


def _short(
    gpu: GpuReading, needed: int, waited_seconds: float, returning: Returning | None
) -> GateVerdict:
    """Who has the memory, whether it is coming back, and for how long that is waited for."""
    text = f"GPU {gpu.index} has {_gib(gpu.free_bytes)} free, {_gib(needed)} are needed"
    still = waited_seconds if returning is None else returning.still_seconds
    left = None if returning is None else returning.seconds_left(gpu.index, needed - gpu.free_bytes)
    if left is not None:
        text += f"; it is coming back, about {math.ceil(left)} s to go"
    ownerless = ownerless_bytes(gpu)
    if ownerless + gpu.free_bytes >= needed and still > OWNERLESS_HOLD_SECONDS:
        return GateVerdict(Gate.HOLD, f"{text}; {_kept(ownerless)}")
    text += f"; {holders_text(gpu)}"
    if still > FOREIGN_HOLD_SECONDS:
        return GateVerdict(Gate.HOLD, text)
    return GateVerdict(Gate.WAIT, text, may_pass_soon=True)


def kept_text(gpu: GpuReading) -> str:
    """What of a GPU is in use without an owner, and what would free it; empty if nothing is."""
    ownerless = ownerless_bytes(gpu)
    return f"GPU {gpu.index}: {_kept(ownerless)}" if ownerless else ""


def _kept(ownerless: int) -> str:
    return (
        f"the driver keeps {_gib(ownerless)} for processes that are gone, and only a reset of "
        "the GPU or a reboot frees them"
    )


def ownerless_bytes(gpu: GpuReading) -> int:
    """What is in use without a living process that says so; 0 where a process keeps it secret."""
    living = [holder for holder in gpu.holders if not holder.gone]
    if any(holder.used_bytes is None for holder in living):
        return 0
    held = sum(holder.used_bytes or 0 for holder in living)
    return max(0, gpu.total_bytes - gpu.free_bytes - held - DRIVER_BYTES)


def instance_gpus(spec: InstanceSpec, report: GateReport) -> tuple[GpuReading, ...]:
    """The readings of the instance's own GPUs, by index or UUID."""
    return tuple(gpu for gpu in report.gpus if {gpu.index, gpu.uuid} & set(spec.gpus))


def needed_bytes(gpu: GpuReading, utilization: float | None, weights_bytes: int) -> int:
    """max(ceil(utilization x total), weights per GPU + 1 GiB); vLLM asserts the first itself."""
    budget = math.ceil((utilization or 0.0) * gpu.cuda_total_bytes)
    return max(budget, weights_bytes + SPARE_BYTES)


def weights_per_gpu(spec: InstanceSpec, model: ModelFacts) -> int:
    """The least that one GPU must hold: the checkpoint's bytes over all GPUs of the instance.

    0 where that is not known, or where the engine loads something else than what is stored.
    """
    words = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in spec.extra_args}
    if model.weight_bytes is None or LOADED_OTHERWISE & {*spec.engine, *words}:
        return 0
    return model.weight_bytes // max(len(spec.gpus), 1)


def _too_large(spec: InstanceSpec, report: GateReport, gpu: GpuReading) -> GateVerdict:
    weights = weights_per_gpu(spec, report.model)
    text = (
        f"the weights are {_gib(report.model.weight_bytes or 0)} over {len(spec.gpus)} GPUs, "
        f"{_gib(weights)} on each, and GPU {gpu.index} has {_gib(gpu.total_bytes)} in all: no "
        f"setting of the KV cache makes them fit; {_ways_out(spec, report, gpu)}"
    )
    return GateVerdict(Gate.FAIL, text)


def _ways_out(spec: InstanceSpec, report: GateReport, gpu: GpuReading) -> str:
    asked = Question(
        settings=spec.engine,
        extra_args=spec.extra_args,
        model=report.model,
        engine=report.engine,
        gpu_total_bytes=gpu.total_bytes,
        gpus=len(report.gpus),
    )
    answer = smallest_changes(asked, Wall.WEIGHTS)
    if answer is None:
        return "use more GPUs, a quantised checkpoint, or cpu_offload_gb"
    if not answer.ways:
        return none_in_words(answer)
    return "these would: " + "; ".join(in_words(way) for way in answer.ways)


def holders_text(gpu: GpuReading) -> str:
    """Who holds the memory of a GPU, biggest first."""
    if not gpu.holders:
        return "no process is named as the holder"
    biggest = sorted(gpu.holders, key=lambda holder: -(holder.used_bytes or 0))[:4]
    return "held by " + ", ".join(
        f"pid {holder.pid} ({'gone' if holder.gone else f'{holder.user}, {holder.command}'}, "
        f"{'unknown size' if holder.used_bytes is None else _gib(holder.used_bytes)})"
        for holder in biggest
    )


def _gib(value: float) -> str:
    return f"{value / GIB:.2f} GiB"
