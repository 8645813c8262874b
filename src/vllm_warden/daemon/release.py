"""Ends what is left of an attempt, and gathers what it left behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.launch_id import launch_prefix
from vllm_warden.core.lifecycle.events import AttemptReleased, EvidenceGathered
from vllm_warden.core.model import Confidence, Failure
from vllm_warden.daemon.directories import remove_temporary
from vllm_warden.daemon.live_attempt import LiveAttempt
from vllm_warden.daemon.memory_back import memory_back
from vllm_warden.daemon.remains import follow_remains, remaining_text
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

log = structlog.get_logger(__name__)

EMPTY_POLL_SECONDS = 0.002
EMPTY_POLL_LATER_SECONDS = 0.25
EMPTY_EAGER_SECONDS = 2.0
LOG_LIMIT_SECONDS = 2.0
REMAINS_SECONDS = 15.0
"""A killed process that held 80 GB takes seconds to end; one that takes longer may never end."""
TIDY_WAIT_SECONDS = 2.0
"""Removing a directory goes on beside everything else when it takes longer."""
DISCARD_AFTER_SECONDS = 1.0
"""Closing a journal reader unmaps its files under the GIL, 20 ms in which nothing else runs; so it
waits until the next attempt has been launched."""


async def release(shell: Shell, name: str, attempt: int) -> None:
    """Answer with AttemptReleased once nothing of the attempt is left, in memory neither."""
    live = await _ended(shell, name, attempt)
    remains = ""
    if live is not None:
        await _finish_log(shell, live)
        await discard(shell, live)
        shell.recorder.stop_attempt(name, attempt, live.reached, live.exit_status)
        remains = remaining_text(shell, live.group) or await memory_back(shell, name)
    shell.post(name, AttemptReleased(shell.now(), attempt, remains))


async def collect(shell: Shell, name: str, attempt: int) -> None:
    """Answer with EvidenceGathered once nothing of the attempt is left."""
    live = await _ended(shell, name, attempt)
    if live is None:
        evidence = Evidence((), incomplete=True, note="the attempt was not found any more")
    else:
        complete = await _finish_log(shell, live)
        kernel_lines = await _kernel_lines(shell, live)
        evidence = _evidence(shell, live, kernel_lines, complete=complete)
    diagnosis = await _diagnosed(shell, evidence)
    jitter = shell.ports.clock.jitter_fraction()
    shell.post(name, EvidenceGathered(shell.now(), attempt, evidence, diagnosis, jitter))
    if live is not None:
        shell.start(_discard_later(shell, live))


async def _diagnosed(shell: Shell, evidence: Evidence) -> Diagnosis:
    """In a thread with a deadline: a hostile log may take long, and the loop must not wait."""
    try:
        return await shell.lanes.diagnosis.call(lambda: diagnose(evidence))
    except LateError as late:
        reason = str(late)
    except Exception as error:
        log.exception("internal-error", kind="diagnosis")
        reason = f"{type(error).__name__} in the diagnosis"
    return Diagnosis(
        Failure.UNKNOWN,
        evidence.reached,
        confidence=Confidence.LIKELY,
        summary=f"The log could not be diagnosed: {reason}.",
        incomplete=True,
    )


async def _ended(shell: Shell, name: str, attempt: int) -> LiveAttempt | None:
    """Kill the attempt's group and wait until it is empty and its parent reaped."""
    launching = shell.launching.get(name)
    if launching is not None:
        await asyncio.wait((launching,))
    live = shell.live.get(name)
    if live is None or live.number != attempt:
        return None
    live.stream.expect_more(expecting=True)
    live.group.kill()
    began = shell.now()
    while not (live.exited or live.child is None) or not live.group.is_empty():
        waited = shell.now() - began
        if waited > REMAINS_SECONDS:
            shell.start(_outlive(shell, live))
            break
        eager = waited < EMPTY_EAGER_SECONDS
        if not eager:
            live.group.kill()
        await asyncio.sleep(EMPTY_POLL_SECONDS if eager else EMPTY_POLL_LATER_SECONDS)
    return live


async def _outlive(shell: Shell, live: LiveAttempt) -> None:
    """The incident does not wait for what no signal ends."""
    live.exited = True  # nobody waits for more of it
    await follow_remains(shell, live.group)
    await _remove_directory(shell, live)


async def _finish_log(shell: Shell, live: LiveAttempt) -> bool:
    """True when every line up to the end has been read back."""
    try:
        complete = await shell.lanes.evidence.call(lambda: live.stream.finish(LOG_LIMIT_SECONDS))
    except LateError:
        return False
    except Exception:
        log.exception("internal-error", kind="log")
        return False
    await asyncio.sleep(0)  # records handed over by the reading thread are taken first
    return complete


async def _kernel_lines(shell: Shell, live: LiveAttempt) -> tuple[str, ...]:
    """Also without them there is a verdict: whatever goes wrong here is only told."""
    kernel_log = shell.ports.kernel_log
    if kernel_log is None:
        return ()
    try:
        since = live.launched_seconds
        return tuple(await shell.lanes.kernel_log.call(lambda: kernel_log.lines(since)))
    except Exception as error:  # noqa: BLE001 -- LateError, and whatever the library raises
        log.warning("kernel-log-not-read", instance=live.instance, error=str(error))
        return ()


def _gpu_addresses(shell: Shell, live: LiveAttempt) -> frozenset[str] | None:
    mine = shell.instance(live.instance).gpu_indices
    found = {gpu.pci for gpu in shell.gpu_view.readings if gpu.index in mine and gpu.pci}
    return frozenset(found) if len(found) == len(mine) else None


def _evidence(
    shell: Shell, live: LiveAttempt, kernel_lines: tuple[str, ...], *, complete: bool
) -> Evidence:
    attempt = shell.instance(live.instance).attempt
    lost = () if attempt is None or attempt.number != live.number else attempt.lost
    groups = shell.ports.groups
    return Evidence(
        records=live.records(),
        incomplete=not complete or live.lost_errors or not live.log_is_whole,
        exit_status=live.exit_status,
        was_ready=live.ready,
        reached=live.reached,
        lost_processes=lost,
        kernel_lines=kernel_lines,
        pids=frozenset(live.pids_seen),
        gpu_addresses=_gpu_addresses(shell, live),
        oom_kills=max(0, groups.oom_kills() - live.oom_kills_at_launch),
        limits=replace(live.limits, address_space_used_bytes=live.address_space_bytes),
        settings=live.plan.settings,
        engine_version=shell.instance(live.instance).engine.version,
        memory=tuple(live.samples),
        memory_total_bytes=dict(live.gpu_cuda_total_bytes),
    )


async def _discard_later(shell: Shell, live: LiveAttempt) -> None:
    _forget(shell, live)
    try:
        await asyncio.sleep(DISCARD_AFTER_SECONDS)
    finally:  # at the daemon's end it is cancelled, and tidies up at once
        await discard(shell, live)


def _forget(shell: Shell, live: LiveAttempt) -> None:
    if shell.live.get(live.instance) is live:
        del shell.live[live.instance]


async def discard(shell: Shell, live: LiveAttempt) -> None:
    """Close the log, remove the group and the attempt's own temporary directory.

    Does not raise, whatever an engine left: the attempt's end must be told all the same.
    """
    _forget(shell, live)
    try:
        live.group.remove()
        await shell.lanes.evidence.call(live.stream.close)  # waits for its reading thread
        shell.ports.notifier.forget(live.descriptor_name)
    except LateError as late:
        log.warning("log-remains-open", instance=live.instance, error=str(late))
    except Exception:
        log.exception("internal-error", kind="tidying")
    if live.shared_files:
        shell.start(_remove_shared(shell, live))
    if live.group.is_empty():  # else it is removed when the last process has ended
        removal = shell.start(_remove_directory(shell, live))
        await asyncio.wait((removal,), timeout=TIDY_WAIT_SECONDS)


async def _remove_shared(shell: Shell, live: LiveAttempt) -> None:
    """What the attempt was seen to use in /dev/shm, and nobody uses any more."""
    files = live.shared_files
    try:
        removed = await shell.lanes.tidying.call(
            lambda: shell.ports.shared_memory.remove_unused(files)
        )
    except LateError as late:
        log.warning("shared-memory-remains", instance=live.instance, error=str(late))
        return
    if removed:
        log.info("shared-memory-removed", instance=live.instance, files=", ".join(removed))


async def _remove_directory(shell: Shell, live: LiveAttempt) -> None:
    """An engine may have left millions of files in it."""
    state, prefix = shell.state_directory, launch_prefix(live.plan.launch_id)
    try:
        problem = await shell.lanes.tidying.call(lambda: remove_temporary(state, prefix))
    except LateError as late:
        problem = f"cannot remove {live.plan.environment['TMPDIR']}: {late}"
    except Exception as error:
        log.exception("internal-error", kind="tidying")
        problem = f"cannot remove {live.plan.environment['TMPDIR']}: {type(error).__name__}"
    if problem is not None:
        shell.recorder.set_condition(
            f"temporary-{live.instance}", f"{live.instance}: {problem}; remove it by hand"
        )
