"""Runs the daemon from a configuration until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import structlog

from vllm_warden.api.schema import IncidentDocument
from vllm_warden.api.server import SocketServer, serve_socket
from vllm_warden.config.settings import DaemonSettings
from vllm_warden.config.translate import Translated
from vllm_warden.config.world import engine_user
from vllm_warden.core.lifecycle.events import EngineFound, StartRequested, StopRequested
from vllm_warden.core.lifecycle.found import FoundEngine
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.daemon import durable, wiring
from vllm_warden.daemon.act import perform
from vllm_warden.daemon.adopt import find_engines
from vllm_warden.daemon.answers import Answers
from vllm_warden.daemon.config_file import ConfigFile
from vllm_warden.daemon.leftovers import end_leftovers
from vllm_warden.daemon.live_attempt import descriptor_name
from vllm_warden.daemon.log_self_test import check_log
from vllm_warden.daemon.look import own_remains, release_when_measured
from vllm_warden.daemon.loop import Loop
from vllm_warden.daemon.reap import must_reap, reap_orphans
from vllm_warden.daemon.record import HistoryStore, Recorder
from vllm_warden.daemon.sample import sample_gpus
from vllm_warden.daemon.shell import Ports, Shell
from vllm_warden.daemon.sweep import sweep_temporary
from vllm_warden.daemon.timers import Timers
from vllm_warden.daemon.watchdog import pet_watchdog

log = structlog.get_logger(__name__)

IDLE = frozenset({State.STOPPED, State.WAITING, State.BACKOFF, State.HELD, State.FAILED})
FIND_SECONDS = 30.0
LEAVE_SECONDS = 10.0
STOP_SPARE_SECONDS = 35.0
"""After the longest drain: time for signals, the kill, what remains after it, and the logs."""
Changed = Callable[[Instance, Instance], None]


@dataclass(frozen=True, slots=True)
class Setup:
    """What to run. ``changed`` is told of every change of an instance (used by ``serve``)."""

    daemon: DaemonSettings
    instances: Sequence[Translated]
    admins: frozenset[int] = frozenset()
    changed: Changed | None = None
    config: ConfigFile | None = None
    prepared: Callable[[Shell], None] | None = None
    engines_outlive: bool = False
    """Whether engines go on where this daemon ends without being told to end them."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)


async def run(setup: Setup) -> None:
    """Run until ``setup.stop`` or a signal.

    Raises SocketProblem, AlreadyRunning and the like before anything has been started.
    """
    state_directory = Path(setup.daemon.state_directory)
    lock, state_file, history = wiring.open_store(state_directory)
    backend = wiring.open_log_backend(setup.daemon.log_backend, state_directory)
    ports = wiring.open_ports(backend, state_directory)
    document, state_problem = state_file.read()
    await history.open()
    recorder = Recorder(cast("HistoryStore", history), state_file, ports.clock, 0)
    await _restore(recorder, document, [one.spec.name for one in setup.instances])
    recorder.set_condition("state-file-damaged", state_problem)
    recorder.set_condition("history", history.condition)
    instances = _instances(setup, document, ports, recorder)
    shell = _shell(setup, ports, recorder, instances, state_directory)
    answers = Answers(shell, setup.admins, os.getpid(), ports.clock.wall_seconds())
    _listen_to_signals(setup, shell)  # before anybody can see that we run, and end us
    server = await serve_socket(answers, setup.daemon.socket, setup.daemon.group)
    try:
        check_log(shell)
        _tell_conditions(shell)
        if setup.prepared is not None:
            setup.prepared(shell)
        await _serve(setup, shell, server)
    finally:
        await server.stop()
        await recorder.settle()
        await history.close()
        lock.close()


def _shell(
    setup: Setup,
    ports: Ports,
    recorder: Recorder,
    instances: list[Instance],
    state_directory: Path,
) -> Shell:
    loop = Loop(instances)
    shell = Shell(
        ports=ports,
        loop=loop,
        timers=Timers(loop.post, ports.clock),
        recorder=recorder,
        instances={one.spec.name: one for one in setup.instances},
        state_directory=state_directory,
        max_concurrent_starts=setup.daemon.max_concurrent_starts,
        environment=wiring.engine_environment(),
        config=setup.config,
    )
    boot_id = ports.clock.boot_id()
    saved = {name: durable.to_document(one, boot_id) for name, one in loop.instances.items()}

    def stepped(name: str, before: Instance, after: Instance) -> None:
        kept = durable.to_document(after, boot_id)
        if kept != saved[name]:
            if kept["envelopes"] != saved[name]["envelopes"]:
                recorder.save_learned(name, {"envelopes": kept["envelopes"]})
            saved[name] = kept
            numbers = {"event": recorder.event_number, "incident": recorder.incident_number}
            recorder.save_state(
                {"schema": durable.SCHEMA, "instances": dict(saved), "numbers": numbers}
            )
        release_when_measured(shell, name)
        if setup.changed is not None:
            setup.changed(before, after)

    loop.connect(lambda name, effect: perform(shell, name, effect), stepped)
    return shell


def _instances(
    setup: Setup, document: dict[str, object], ports: Ports, recorder: Recorder
) -> list[Instance]:
    known = document.get("instances")
    kept = known if isinstance(known, dict) else {}
    boot_id = ports.clock.boot_id()
    found = []
    for translated in setup.instances:
        name = translated.spec.name
        instance = durable.from_document(translated.spec, kept.get(name), boot_id)
        most = max(
            (cast("int", one.get("number", 0)) for one in recorder.attempts.get(name, [])),
            default=0,
        )
        instance = durable.with_attempts(instance, most)
        now = ports.clock.now_seconds()
        open_incident = name in recorder.open_incidents
        found.append(replace(instance, since_seconds=now, incident_open=open_incident))
    return found


async def _restore(recorder: Recorder, state: dict[str, object], names: list[str]) -> None:
    """Numbers go on where the history ends; the newest incident of each instance is kept.

    The state file knows the numbers too, for a history that had to be set aside.
    """
    store = recorder.history
    numbers = await store.last_numbers()
    kept = state.get("numbers")
    known = kept if isinstance(kept, dict) else {}
    recorder.event_number = max(numbers.event, cast("int", known.get("event", 0)))
    recorder.incident_number = max(numbers.incident, cast("int", known.get("incident", 0)))
    for name in names:
        recorder.attempts[name] = await store.attempts(name, 20)
        newest = await store.incidents(name, 1)
        if newest:
            full = await store.incident(cast("int", newest[0]["number"]))
            document = cast("IncidentDocument", full or newest[0])
            recorder.last_incidents[name] = document
            if document["resolved"] is None:
                recorder.open_incidents[name] = document


def _tell_conditions(shell: Shell) -> None:
    recorder = shell.recorder
    for translated in shell.instances.values():
        _, warning = engine_user(translated.spec)
        if warning is not None:
            log.warning("engine-user", text=warning)
    if shell.ports.groups.kind != "cgroup":
        recorder.set_condition(
            "cgroup",
            "no writable cgroup2 here: engines are held together by session and process group only",
        )


async def _serve(setup: Setup, shell: Shell, server: SocketServer) -> None:
    running = shell.start(shell.loop.run())
    if any(one.spec.gpus for one in setup.instances):
        shell.start(sample_gpus(shell))
    else:
        shell.gpu_view.problem = "not read: no instance uses a GPU"
    shell.start(pet_watchdog(shell))
    if must_reap(shell):
        shell.ports.become_subreaper()
        shell.start(reap_orphans(shell))
    found = await _found(setup, shell)
    await end_leftovers(shell, found)
    await sweep_temporary(shell)
    for name, one in found.items():
        shell.post(name, EngineFound(shell.now(), one))
    _start_wanted(shell, found)
    shell.ports.notifier.ready()
    _settle_memory()
    log.info("daemon-ready", socket=server.path, pid=os.getpid())
    await setup.stop.wait()
    shell.ports.notifier.stopping()
    if setup.engines_outlive and await _goes_on(shell):
        await _leave_engines(shell)
    else:
        await _stop_all(setup, shell)
    running.cancel()
    await shell.cancel_tasks()
    shell.lanes.close()


async def _goes_on(shell: Shell) -> bool:
    """Whether the unit is only being restarted. Outside of a unit a stop means the engines too."""
    if shell.interrupted:
        return False
    return await asyncio.to_thread(shell.ports.unit_goes_on)


async def _leave_engines(shell: Shell) -> None:
    """The next daemon takes them over; a launch under way is finished, so that it has a record."""
    shell.closing = True
    log.info("engines-left", instances=sorted(shell.live))
    if shell.launching:
        await asyncio.wait(tuple(shell.launching.values()), timeout=LEAVE_SECONDS)


def _settle_memory() -> None:
    """What was imported stays for ever: the collector need not look through it again.

    Without this, collections take a third of the time of a diagnosis.
    """
    gc.collect()
    gc.freeze()


async def _found(setup: Setup, shell: Shell) -> dict[str, FoundEngine]:
    """What an earlier daemon left, with the writing ends of the logs that systemd kept."""
    notifier = shell.ports.notifier
    kept = dict(notifier.kept())
    found: dict[str, FoundEngine] = {}
    if setup.engines_outlive:
        shell.kept_descriptors.update(kept)
        found = await shell.lanes.processes.call(lambda: find_engines(shell), FIND_SECONDS)
    wanted = {descriptor_name(name, one.attempt, one.launch_id) for name, one in found.items()}
    for name in kept.keys() - wanted:
        notifier.forget(name)
        os.close(kept[name])
        shell.kept_descriptors.pop(name, None)
    shell.recorder.forget_unseen({name: one.attempt for name, one in found.items()})
    return found


def _start_wanted(shell: Shell, found: Mapping[str, FoundEngine]) -> None:
    for name, instance in shell.loop.instances.items():
        if name not in found and instance.wanted and instance.state is State.STOPPED:
            shell.post(name, StartRequested(shell.now(), instance.wanted_by))


def _listen_to_signals(setup: Setup, shell: Shell) -> None:
    """The first SIGTERM or SIGINT stops with a drain, the second without."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        shell.interrupted = True
        stop()

    def stop() -> None:
        if setup.stop.is_set():
            for name in shell.loop.instances:
                shell.post(name, _daemon_stop(shell, now=True))
        setup.stop.set()

    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.add_signal_handler(signal.SIGINT, interrupt)


def _daemon_stop(shell: Shell, *, now: bool = False) -> StopRequested:
    return StopRequested(shell.now(), "the daemon's own stop", now=now, keep_wanted=True)


async def _all_taken_over(shell: Shell) -> None:
    """What was found is stopped like the rest; where taking it over hangs, its group is killed."""
    deadline = shell.now() + LEAVE_SECONDS
    while shell.now() < deadline:
        if not any(one.found for one in shell.loop.instances.values()):
            return
        await asyncio.sleep(0.02)
    for name, one in shell.loop.instances.items():
        for group in own_remains(shell, name) if one.found else ():
            group.kill()


async def _stop_all(setup: Setup, shell: Shell) -> None:
    """Stop every engine; wanted states stay as they are for the next start of the daemon."""
    shell.closing = True
    await _all_taken_over(shell)
    for name in shell.loop.instances:
        shell.post(name, _daemon_stop(shell))
    longest = max((one.spec.drain_seconds for one in setup.instances), default=0.0)
    deadline = shell.now() + longest + STOP_SPARE_SECONDS
    while shell.now() < deadline:
        await asyncio.sleep(0.02)
        idle = all(instance.state in IDLE for instance in shell.loop.instances.values())
        if idle and not shell.live and not shell.launching:
            return
    log.error("engines-remain", instances=sorted(shell.live))
