"""Watches one attempt while it lives: log, processes, readiness, health, progress."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from vllm_warden.core.diagnose.classify import figures_of_log
from vllm_warden.core.diagnose.evidence import HostLimits, LogRecord, LostProcess
from vllm_warden.core.lifecycle.events import (
    BecameReady,
    BecameUnready,
    EngineLost,
    NotReadyYet,
    PhaseEntered,
    RequestsServed,
    Stalled,
)
from vllm_warden.core.model import Phase
from vllm_warden.daemon.line_delivery import paced
from vllm_warden.daemon.live_attempt import LiveAttempt
from vllm_warden.daemon.measured import figures_at_ready
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

STARTING_SECONDS = 1.0
SERVING_SECONDS = 10.0
LISTEN_LOOKS = 5
"""Without the log's word that it serves, the port is looked at only this often: reading the
kernel's table of sockets takes 20 ms on some hosts."""
REQUESTS_SECONDS = 60.0
HEALTH_TIMEOUT_SECONDS = 5.0
FIRST_TOKEN_SECONDS = 60.0
"""A cold engine compiles kernels at its first request."""
FAILS_UNTIL_UNREADY = 3
SERVICE_UNAVAILABLE = 503
"""vLLM's /health answers 503 only when its engine is known to be dead."""
OK = 200
NO_PROGRESS = re.compile(
    r'INFO: +\S+ - "(?:GET|POST) |No available shared memory broadcast block'
    r"|Engine \d+: Avg prompt"
)
"""Lines that also a stuck engine prints: answers to our own probes, and clocks."""
PIDS_SEEN_MAX = 20_000
RANK = re.compile(r"(?:TP|Worker_?)(\d+)")


def deliver_to(shell: Shell, live: LiveAttempt) -> Callable[[Sequence[LogRecord]], None]:
    """What the log's reading thread calls with new lines."""
    return paced(asyncio.get_running_loop(), lambda records: _take(shell, live, records))


def _take(shell: Shell, live: LiveAttempt, records: Sequence[LogRecord]) -> None:
    now = shell.now()
    if any(NO_PROGRESS.search(record.text, 0, 200) is None for record in records):
        live.progress_seconds = now
    for phase in live.take_records(records):
        shell.post(live.instance, PhaseEntered(now, live.number, phase))
    tell_listeners(shell, live.instance, live.number, records)


def tell_listeners(shell: Shell, name: str, number: int, records: Sequence[LogRecord]) -> None:
    """Each of them may leave meanwhile."""
    for listener in tuple(shell.line_listeners):
        listener(name, number, records)


async def observe(shell: Shell, live: LiveAttempt) -> None:
    """Until the attempt has exited: look closely while it starts, rarely while it serves."""
    live.limits = await _limits(shell, live)
    suspected: dict[int, str] = {}
    fails, counted_at, looks = 0, 0.0, 0
    while not live.exited:
        if not live.ready:
            suspected = await _scan(shell, live, suspected)
            if live.phase is Phase.SERVING or looks % LISTEN_LOOKS == 0:
                await _see_shared(shell, live)
                _tell_probe(shell, live, await _try_ready(shell, live))
            looks += 1
            _check_stall(shell, live)
            await asyncio.sleep(STARTING_SECONDS)
            continue
        fails = await _check_health(shell, live, fails)
        if shell.now() - counted_at >= REQUESTS_SECONDS:
            counted_at = shell.now()
            await _count_requests(shell, live)
        await asyncio.sleep(STARTING_SECONDS if fails else SERVING_SECONDS)


async def _limits(shell: Shell, live: LiveAttempt) -> HostLimits:
    if live.child is None:
        return live.limits
    pid = live.child.identity.pid
    await asyncio.sleep(STARTING_SECONDS / 2)  # wrappers like prlimit set the limit, then exec
    try:
        found = await shell.lanes.processes.call(lambda: shell.ports.watch.limits(pid))
    except LateError:
        return live.limits
    return replace(found, memory_bytes=shell.ports.groups.memory_limit_bytes())


async def _see_shared(shell: Shell, live: LiveAttempt) -> None:
    """Shared memory is made while vLLM starts, and stays behind when it is killed."""
    shared = shell.ports.shared_memory
    with contextlib.suppress(LateError):
        live.shared_files |= await shell.lanes.processes.call(lambda: shared.of(live.group.pids()))


async def _scan(shell: Shell, live: LiveAttempt, suspected: dict[int, str]) -> dict[int, str]:
    """Find engine processes; one is believed when two scans in a row show it, then watched.

    Between fork and exec a helper wears its parent's title, so one look proves nothing.
    """
    if live.child is None:
        return suspected
    parent = live.child.identity.pid

    def look() -> tuple[dict[int, str], int | None]:
        pids = live.group.pids()
        live.pids_seen.update(pids[: max(0, PIDS_SEEN_MAX - len(live.pids_seen))])
        watch = shell.ports.watch
        return watch.engine_processes(pids, parent), watch.address_space_bytes(pids)

    try:
        found, address_space = await shell.lanes.processes.call(look)
    except LateError:
        return suspected
    if address_space is not None and address_space != live.address_space_seen_bytes:
        live.address_space_seen_bytes = address_space
        live.progress_seconds = shell.now()
    if address_space is not None and not live.address_space_settled:
        live.address_space_bytes = max(address_space, live.address_space_bytes or 0)
        # what profiling itself allocates must not count as in use before it
        live.address_space_settled = live.phase is Phase.PROFILE
    for pid, title in found.items():
        if pid in live.engine:
            live.engine[pid] = title  # a worker has no rank in its title before it knows its rank
        elif suspected.get(pid) == title:
            _watch_engine_process(shell, live, pid, title)
    return found


def _watch_engine_process(shell: Shell, live: LiveAttempt, pid: int, title: str) -> None:
    live.engine[pid] = title

    def ended() -> None:
        last_title = live.engine.pop(pid, title)
        if live.exited:
            return
        found = RANK.search(last_title)
        lost = LostProcess(pid, last_title, int(found[1]) if found else None)
        shell.post(live.instance, EngineLost(shell.now(), live.number, lost))

    if not shell.ports.watch.watch_end(pid, ended):
        ended()


def _tell_probe(shell: Shell, live: LiveAttempt, problem: str | None) -> None:
    """Say why it is not ready although it listens, whenever that changes."""
    if problem is not None and problem != live.probe_problem and not live.exited:
        live.probe_problem = problem
        shell.post(live.instance, NotReadyYet(shell.now(), live.number, problem))


async def _try_ready(shell: Shell, live: LiveAttempt) -> str | None:
    """Ready: a listening socket of this attempt, /health, then one token.

    Returns what the probe saw instead, None when it is ready or does not listen yet.
    """
    spec = live.spec

    def listens() -> bool:
        return shell.ports.watch.listens(live.group.pids(), spec.port)

    try:
        if not await shell.lanes.processes.call(listens):
            return None
    except LateError:
        return None
    health = shell.ports.health
    status = await health.check(spec.host, spec.port, HEALTH_TIMEOUT_SECONDS)
    if status != OK:
        return "/health does not answer" if status is None else f"/health answers {status}"
    key = spec.secret_environment.get("VLLM_API_KEY") or spec.environment.get("VLLM_API_KEY")
    problem = await health.generate_one_token(
        spec.host, spec.port, spec.model, key, FIRST_TOKEN_SECONDS
    )
    if problem is None and not live.exited:
        # the engine is complete by now: whoever wears an engine's title is watched from here on
        await _scan(shell, live, await _scan(shell, live, {}))
        live.ready = True
        became = _became_ready(shell, live)
        seen = figures_at_ready(
            shell.instance(live.instance), became, live.tracker.facts.engine_version
        )
        attempt = shell.instance(live.instance).attempt
        since = None if attempt is None else attempt.ready_since_seconds  # under an earlier daemon
        ready_seconds = became.at_seconds if since is None else since
        note: dict[str, object] = {"ready_seconds": ready_seconds, **seen}
        shell.recorder.note_attempt(live.instance, live.number, note)
        shell.post(live.instance, became)
    return None if problem is None else f"one token was asked for: {problem}"


def _became_ready(shell: Shell, live: LiveAttempt) -> BecameReady:
    """With what the core needs to tell whether a full batch will fit."""
    return BecameReady(shell.now(), live.number, figures_of_log(live.tracker.facts))


def _check_stall(shell: Shell, live: LiveAttempt) -> None:
    quiet = shell.now() - live.progress_seconds
    if quiet > shell.instance(live.instance).spec.stall_seconds:
        live.progress_seconds = shell.now()
        shell.post(live.instance, Stalled(shell.now(), live.number, quiet))


async def _check_health(shell: Shell, live: LiveAttempt, fails: int) -> int:
    """How many checks in a row have failed; tells the core at the edges."""
    spec = live.spec
    status = await shell.ports.health.check(spec.host, spec.port, HEALTH_TIMEOUT_SECONDS)
    if live.exited:
        return 0
    if status == OK:
        if fails:
            shell.post(live.instance, BecameReady(shell.now(), live.number))
        return 0
    fails += 1
    if fails == FAILS_UNTIL_UNREADY or status == SERVICE_UNAVAILABLE:
        saw = "does not answer" if status is None else f"answers {status}"
        shell.post(live.instance, BecameUnready(shell.now(), live.number, f"/health {saw}"))
    return fails


async def _count_requests(shell: Shell, live: LiveAttempt) -> None:
    spec = live.spec
    counts = await shell.ports.health.metrics(spec.host, spec.port)
    if counts is not None and counts.requests_served is not None:
        idle = counts.requests_running == 0 == counts.requests_waiting
        served = RequestsServed(shell.now(), live.number, counts.requests_served, idle)
        shell.post(live.instance, served)
