"""Looks at everything a launch depends on, and reports facts to the gate."""

from __future__ import annotations

from dataclasses import replace

import structlog

from vllm_warden.config.world import ObstacleKind, instance_faults
from vllm_warden.core.lifecycle.events import GateReported
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import GpuReading, Phase
from vllm_warden.core.plan.gate import GateReport, WorldFault, instance_gpus
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec
from vllm_warden.daemon.check_catalogue import check_catalogue_once
from vllm_warden.daemon.ports import AttemptGroup, StartLock
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

log = structlog.get_logger(__name__)

BEFORE_KV_CACHE = frozenset(
    {
        *(Phase.ARGS, Phase.DOWNLOAD, Phase.INIT_DEVICE, Phase.LOAD),
        *(Phase.PROFILE, Phase.KV_PLAN),
    }
)
SEEN_BY_THE_GATE = frozenset({ObstacleKind.GPU, ObstacleKind.PORT})
"""These the gate looks at itself, with holders' names."""


async def look(shell: Shell, name: str, number: int) -> None:
    """One look for one instance; whatever fails inside becomes a fact of the report.

    Reports are handed over one at a time, so that each sees the starts that the last one caused.
    """
    try:
        report = await _report(shell, name)
    except Exception as error:  # the gate must hear of it, or it would wait for ever
        log.exception("internal-error", instance=name, kind="look")
        reason = f"internal error: {type(error).__name__} while looking at the host"
        report = GateReport(faults=(WorldFault(f"instance.{name}", reason, hopeless=False),))
    async with shell.admission:
        report = replace(report, starting=_starting_elsewhere(shell, name))
        lock = None if report.starting else _lock(shell, name, report)
        if isinstance(lock, str):
            report, lock = replace(report, starting=(lock,)), None
        shell.post(name, GateReported(shell.now(), number, report))
        await shell.loop.settled()
        if lock is not None:
            shell.start_locks[name] = lock
            release_when_measured(shell, name)


async def _report(shell: Shell, name: str) -> GateReport:
    spec = shell.instance(name).spec
    pids = [pid for group in own_remains(shell, name) for pid in group.pids()]
    report = GateReport(
        faults=await _faults(shell, name),
        own_remains=tuple(shell.ports.watch.remaining(pids)),
        engine=await _engine(shell, name),
    )
    try:
        report = replace(
            report,
            model=await shell.lanes.probes.call(lambda: shell.ports.model_probe.facts(spec.model)),
            port_holder=await shell.lanes.processes.call(
                lambda: shell.ports.port_holder(spec.host, spec.port)
            ),
        )
    except LateError as late:
        fault = WorldFault(f"instance.{name}", str(late), hopeless=False)
        report = replace(report, faults=(*report.faults, fault))
    if not spec.gpus:
        return report
    readings, problem = await read_gpus(shell)
    return replace(report, gpus=readings, gpus_problem=problem)


async def _faults(shell: Shell, name: str) -> tuple[WorldFault, ...]:
    translated = shell.instances[name]
    try:
        found = await shell.lanes.probes.call(lambda: instance_faults(translated), 10.0)
    except LateError as late:
        return (WorldFault(f"instance.{name}", str(late), hopeless=False),)
    return tuple(
        WorldFault(f"{fault.key} = {fault.value}", fault.reason, fault.hopeless)
        for fault in found
        if fault.kind not in SEEN_BY_THE_GATE
    )


async def _engine(shell: Shell, name: str) -> EngineFacts:
    spec = shell.instance(name).spec
    with_flags = any(value is False for value in spec.engine.values())
    try:
        facts = await shell.lanes.probes.call(
            lambda: shell.ports.engine_probe.facts(spec.command, with_flags=with_flags)
        )
    except LateError as late:
        return EngineFacts(problem=str(late))
    check_catalogue_once(shell, spec.command, facts.version)
    return facts


def own_remains(shell: Shell, name: str) -> list[AttemptGroup]:
    """Groups of this instance's earlier attempts that still hold processes."""
    alive = {live.group.path for live in shell.live.values()}
    return [
        group
        for group in shell.ports.groups.leftovers()
        if group.path not in alive and group.instance == name
    ]


def _starting_elsewhere(shell: Shell, name: str) -> tuple[str, ...]:
    """Starts that must be waited for: all where no slot is free, else those on the same GPUs.

    vLLM measures free memory while it profiles; another start on the GPU would spoil that.
    """
    starting = {
        other: instance
        for other, instance in shell.loop.instances.items()
        if other != name and instance.state is State.STARTING
    }
    if len(starting) >= shell.max_concurrent_starts:
        return tuple(starting)
    mine = _gpu_indices(shell, shell.instance(name).spec)
    return tuple(
        other
        for other, instance in starting.items()
        if mine & set(instance.gpu_indices) and _measures_memory(instance)
    )


def _lock(shell: Shell, name: str, report: GateReport) -> StartLock | str | None:
    """Against other wardens of the host; also two instances of ours never hold the same GPU's."""
    instance = shell.instance(name)
    uuids = [gpu.uuid for gpu in instance_gpus(instance.spec, report) if gpu.uuid]
    return shell.ports.lock_start(uuids) if uuids and instance.found is None else None


def release_when_measured(shell: Shell, name: str) -> None:
    """Let the next one start on the GPUs, unless this start still measures their memory."""
    instance = shell.instance(name)
    if instance.state is State.STARTING and _measures_memory(instance):
        return
    lock = shell.start_locks.pop(name, None)
    if lock is not None:
        lock.release()


def _measures_memory(instance: Instance) -> bool:
    return instance.attempt is not None and instance.attempt.phase in BEFORE_KV_CACHE


def _gpu_indices(shell: Shell, spec: InstanceSpec) -> set[int]:
    return {
        gpu.index
        for gpu in shell.gpu_view.readings
        if gpu.index in spec.gpus or gpu.uuid in spec.gpus
    }


async def read_gpus(shell: Shell) -> tuple[tuple[GpuReading, ...], str | None]:
    """All GPUs with their holders, ours marked; or why they cannot be read."""
    try:
        readings = await shell.lanes.nvml.call(
            lambda: tuple(shell.ports.gpus.memory_with_holders())
        )
    except LateError as late:
        return (), str(late)
    except Exception as error:  # noqa: BLE001 -- any trouble with the driver means unknown
        return (), str(error)
    ours = {pid for live in shell.live.values() for pid in live.group.pids()}
    marked = tuple(
        replace(
            gpu,
            holders=tuple(replace(holder, ours=holder.pid in ours) for holder in gpu.holders),
        )
        for gpu in readings
    )
    shell.gpu_view.readings, shell.gpu_view.problem = marked, None
    return marked, None
