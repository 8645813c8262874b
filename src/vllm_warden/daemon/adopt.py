"""Finds what an earlier daemon launched and did not see end, and watches it from here on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import structlog

from vllm_warden.core.launch_id import is_launch_id, launch_prefix
from vllm_warden.core.lifecycle.effects import TakeOver
from vllm_warden.core.lifecycle.events import ProcessExited
from vllm_warden.core.lifecycle.found import FoundEngine, LaunchedAs
from vllm_warden.core.lifecycle.states import Instance
from vllm_warden.core.lifecycle.trial import Trial, TrialKind
from vllm_warden.core.model import ProcessIdentity, Settings, SettingValue
from vllm_warden.core.plan.drop_in import DropInError, read_line
from vllm_warden.core.plan.spec import InstanceSpec, LaunchPlan
from vllm_warden.daemon.live_attempt import LiveAttempt, descriptor_name
from vllm_warden.daemon.observe import deliver_to, observe
from vllm_warden.daemon.ports import AttemptGroup, Child, LogStream
from vllm_warden.daemon.record import Document
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

log = structlog.get_logger(__name__)

GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"
RETRY_SECONDS = 5.0


def takeover_record(instance: Instance, live: LiveAttempt, identity: ProcessIdentity) -> Document:
    """What a later daemon needs in order to take the attempt over."""
    attempt = instance.attempt
    return {
        "boot_id": identity.boot_id,
        "pid": identity.pid,
        "start_ticks": identity.start_ticks,
        "gpus": list(instance.gpu_indices),
        "launched_as": {
            "model": live.spec.model,
            "host": live.spec.host,
            "port": live.spec.port,
            "engine": dict(live.spec.engine),
        },
        "launched_seconds": live.launched_seconds,
        "trial": None if attempt is None else _trial_document(attempt.trial),
        "free_at_launch_bytes": None if attempt is None else attempt.free_at_launch_bytes,
        "total_at_launch_bytes": None if attempt is None else attempt.total_at_launch_bytes,
    }


def find_engines(shell: Shell) -> dict[str, FoundEngine]:
    """By instance: its one attempt that lives, or that ended while no daemon watched. Blocks.

    The tree of groups is the registry. The history adds what a process cannot tell; where the two
    contradict each other, the process is not taken for the attempt's parent. Of several living
    attempts the one that the history knows is taken over, else the newest.
    """
    groups: dict[str, list[AttemptGroup]] = {}
    for group in shell.ports.groups.leftovers():
        groups.setdefault(group.instance, []).append(group)
    found = {}
    for name in shell.instances:
        named = [group for group in groups.get(name, ()) if group.launch_prefix]
        living = [_alive(shell, name, group) for group in named]
        candidates = [one for one in living if one is not None]
        best = max(candidates, key=_certainty) if candidates else _ended(shell, name)
        if best is not None:
            found[name] = best
    return found


def _certainty(one: FoundEngine) -> tuple[bool, bool, int]:
    return one.identity is not None, one.launched_as is not None, one.attempt


def _alive(shell: Shell, name: str, group: AttemptGroup) -> FoundEngine | None:
    record, pids = _record_of(shell, name, group), group.pids()
    if record is not None:
        if record.is_over:
            return None  # it was being ended
        known = record.found.identity
        is_there = known is not None and known.pid in pids
        return record.found if is_there else replace(record.found, identity=None)
    spec, leader = shell.instances[name].spec, shell.ports.earlier.leader(pids)
    words = () if leader is None else shell.ports.earlier.words(leader.pid)
    if leader is None or not _is_of(spec, words):
        return None
    return _unrecorded(shell, spec, group, leader, words)


def _unrecorded(
    shell: Shell,
    spec: InstanceSpec,
    group: AttemptGroup,
    leader: ProcessIdentity,
    words: Sequence[str],
) -> FoundEngine:
    """Without a history: what its command line and environment say; nothing is learned of it."""
    indices = (shell.ports.earlier.variable(leader.pid, GPUS_VARIABLE) or "").split(",")
    return FoundEngine(
        attempt=group.attempt,
        launch_id=group.launch_prefix,
        settings=_settings_of(spec, words),
        gpu_indices=tuple(int(index) for index in indices if index.isdecimal()),
        launched_seconds=shell.now(),
        identity=leader,
        forgotten=True,
    )


def _is_of(spec: InstanceSpec, words: Sequence[str]) -> bool:
    """Whether a command line is one of ours for this instance."""
    return spec.model in words and str(spec.port) in words


def _settings_of(spec: InstanceSpec, words: Sequence[str]) -> Settings:
    try:
        line = read_line(words[words.index("serve") :] if "serve" in words else words)
    except (DropInError, ValueError):
        return spec.engine
    return {**spec.engine, **line.engine}


@dataclass(frozen=True, slots=True)
class _Record:
    """An attempt of this boot as the history has it, whether it lives or not."""

    found: FoundEngine
    is_over: bool


def _ended(shell: Shell, name: str) -> FoundEngine | None:
    """The newest attempt, if nothing is left of it and nobody has seen it end."""
    for document in shell.recorder.attempts.get(name, ())[:1]:
        record = _read(document, shell.ports.clock.boot_id())
        if record is not None and not record.is_over:
            return replace(record.found, identity=None)
    return None


def _record_of(shell: Shell, name: str, group: AttemptGroup) -> _Record | None:
    for document in shell.recorder.attempts.get(name, ()):
        record = _read(document, shell.ports.clock.boot_id())
        if record is not None and record.found.attempt == group.attempt:
            its_prefix = launch_prefix(record.found.launch_id)
            return record if its_prefix == group.launch_prefix else None
    return None


def _read(document: Document, boot_id: str) -> _Record | None:
    """None for an attempt of another boot, and for a document that is not whole."""
    if document.get("boot_id") != boot_id:
        return None
    launch_id = str(document.get("launch_id"))
    if not is_launch_id(launch_id):  # it names a directory
        return None
    try:
        pid, ticks = cast("int", document["pid"]), cast("int", document["start_ticks"])
        ready = document.get("ready_seconds")
        found = FoundEngine(
            attempt=int(cast("int", document["number"])),
            launch_id=launch_id,
            settings=dict(cast("Mapping[str, SettingValue]", document["settings"])),
            gpu_indices=tuple(int(gpu) for gpu in cast("list[int]", document["gpus"])),
            launched_seconds=float(cast("float", document["launched_seconds"])),
            identity=ProcessIdentity(int(pid), int(ticks), boot_id),
            ready_since_seconds=float(ready) if isinstance(ready, int | float) else None,
            trial=_trial(document.get("trial")),
            free_at_launch_bytes=_bytes(document.get("free_at_launch_bytes")),
            total_at_launch_bytes=_bytes(document.get("total_at_launch_bytes")),
            launched_as=_launched_as(document["launched_as"]),
            forgotten=document.get("forgotten") is True,
            stop_asked=document.get("stop_asked") is True,
        )
    except (KeyError, TypeError, ValueError):
        return None
    return _Record(found, is_over=document.get("ended") is not None)


def _launched_as(value: object) -> LaunchedAs:
    """Raises KeyError, TypeError and ValueError for one that is not whole."""
    known = cast("dict[str, Any]", value)
    return LaunchedAs(
        str(known["model"]), str(known["host"]), int(known["port"]), dict(known["engine"])
    )


def _trial_document(trial: Trial | None) -> Document | None:
    if trial is None:
        return None
    return {"kind": trial.kind.value, "by": trial.by, "changes": dict(trial.changes)}


def _trial(value: object) -> Trial | None:
    """Raises KeyError, TypeError and ValueError for one that is not whole."""
    if not isinstance(value, dict):
        return None
    return Trial(TrialKind(value["kind"]), str(value["by"]), dict(value["changes"]))


def _bytes(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


async def take_over(shell: Shell, name: str, effect: TakeOver) -> None:
    """Read its log from the begin, and watch it as if it had been launched here."""
    found = effect.found
    live, child = await _prepared(shell, name, found)
    shell.live[name] = live
    if child is None:
        live.exited, live.ready = True, found.ready_since_seconds is not None
        shell.post(name, ProcessExited(shell.now(), live.number, None))
        return
    live.child = child

    def exited(status: int | None) -> None:
        live.exited, live.exit_status = True, status
        shell.post(name, ProcessExited(shell.now(), live.number, status))

    child.watch_exit(exited)
    shell.start(observe(shell, live))


async def _prepared(
    shell: Shell, name: str, found: FoundEngine
) -> tuple[LiveAttempt, Child | None]:
    """As often as it takes: an engine that runs must not be left unwatched."""
    while True:
        try:
            prepared = await shell.lanes.launches.call(lambda: _prepare(shell, name, found))
            await _start_reading(shell, prepared[0])
        except Exception as error:
            if not isinstance(error, (LateError, OSError)):
                log.exception("internal-error", kind="adoption")
            text = f"{name}: cannot take over attempt {found.attempt}: {error}"
            shell.recorder.set_condition(f"adoption-{name}", text)
            await asyncio.sleep(RETRY_SECONDS)
        else:
            shell.recorder.set_condition(f"adoption-{name}", None)
            return prepared


async def _start_reading(shell: Shell, live: LiveAttempt) -> None:
    try:
        live.stream.start_reading(deliver_to(shell, live))
    except Exception:  # no thread is left, for example
        await shell.lanes.evidence.call(live.stream.close)
        raise


def _prepare(shell: Shell, name: str, found: FoundEngine) -> tuple[LiveAttempt, Child | None]:
    """Blocking part. The group of one that has ended is made again, empty."""
    earlier, groups = shell.ports.earlier, shell.ports.groups
    group = _group_of(shell, name, found) or groups.create(name, found.attempt, found.launch_id)
    child = None if found.identity is None else earlier.adopt(found.identity)
    stream, is_whole = _stream(shell, name, found)
    now = shell.now()
    plan = LaunchPlan(
        instance=name,
        attempt=found.attempt,
        launch_id=found.launch_id,
        argv=tuple(earlier.words(found.identity.pid)) if found.identity else (),
        environment={"TMPDIR": str(shell.state_directory / "t" / launch_prefix(found.launch_id))},
        settings=found.settings,
    )
    spec, then = shell.instances[name].spec, found.launched_as
    if then is not None:
        # it listens where it was told to, whatever the settings file has said since
        spec = replace(spec, model=then.model, host=then.host, port=then.port, engine=then.engine)
    live = LiveAttempt(
        instance=name,
        spec=spec,
        number=found.attempt,
        plan=plan,
        group=group,
        stream=stream,
        launched_seconds=found.launched_seconds,
        launched_wall_seconds=shell.ports.clock.wall_seconds() - (now - found.launched_seconds),
        oom_kills_at_launch=groups.oom_kills(),
        progress_seconds=now,
        log_is_whole=is_whole,
        pids_seen=set(group.pids()),
    )
    return live, child


def _group_of(shell: Shell, name: str, found: FoundEngine) -> AttemptGroup | None:
    wanted = (name, found.attempt, launch_prefix(found.launch_id))
    for group in shell.ports.groups.leftovers():
        if (group.instance, group.attempt, group.launch_prefix) == wanted:
            return group
    return None


def _stream(shell: Shell, name: str, found: FoundEngine) -> tuple[LogStream, bool]:
    """Its log, and whether that can be read at all: otherwise an empty one stands in for it."""
    key = descriptor_name(name, found.attempt, found.launch_id)
    writer = shell.kept_descriptors.pop(key, None)
    if writer is None and found.identity is not None:
        writer = shell.ports.earlier.output_of(found.identity.pid)
    backend = shell.ports.log_backend
    try:
        return backend.resume_stream(name, found.attempt, found.launch_id, writer), True
    except OSError as error:
        log.warning("log-not-found", instance=name, attempt=found.attempt, error=str(error))
    return backend.open_stream(name, found.attempt, found.launch_id), False
