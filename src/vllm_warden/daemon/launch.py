"""Starts one attempt: log stream, group, temporary directory, process, observers."""

from __future__ import annotations

import pwd
import secrets
from contextlib import ExitStack
from pathlib import Path

import structlog

from vllm_warden.api.schema import ChangeDocument
from vllm_warden.config.world import engine_user
from vllm_warden.core.launch_id import launch_prefix
from vllm_warden.core.lifecycle.effects import Announce, Launch
from vllm_warden.core.lifecycle.events import Launched, LaunchFailed, ProcessExited
from vllm_warden.core.plan.command_line import (
    LaunchContext,
    build_argv,
    build_environment,
    printable,
)
from vllm_warden.core.plan.spec import InstanceSpec, LaunchPlan
from vllm_warden.daemon.adopt import takeover_record
from vllm_warden.daemon.compile_caches import compile_caches, put_aside
from vllm_warden.daemon.directories import make_owned, make_temporary, remove_temporary
from vllm_warden.daemon.live_attempt import LiveAttempt
from vllm_warden.daemon.observe import deliver_to, observe
from vllm_warden.daemon.ports import Child
from vllm_warden.daemon.release import discard
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

log = structlog.get_logger(__name__)


async def launch(shell: Shell, name: str, effect: Launch) -> None:
    """Answer with Launched or LaunchFailed; a failed launch leaves nothing behind."""
    launch_id = secrets.token_hex(8)

    def prepared_late(live: LiveAttempt | None) -> None:
        if live is not None:
            shell.start(discard(shell, live))

    try:
        live = await shell.lanes.launches.call(
            lambda: _prepare(shell, name, effect, launch_id), after_late=prepared_late
        )
    except Exception as error:  # not only LateError and OSError: the instance waits for an answer
        if not isinstance(error, (LateError, OSError)):
            log.exception("internal-error", kind="launch")
        _failed(shell, name, effect.attempt, _in_words(error), hopeless=False)
        return
    shell.live[name] = live
    if live.caches_aside:
        shell.recorder.announce(name, _caches_told(live))
    await _spawn(shell, live)


async def _spawn(shell: Shell, live: LiveAttempt) -> None:
    def undo(_: object = None) -> None:
        shell.start(discard(shell, live))

    def spawned_late(child: Child | None) -> None:
        live.group.kill()
        if child is None:
            undo()
        else:
            child.watch_exit(undo)

    try:
        live.stream.start_reading(deliver_to(shell, live))
        child = await shell.lanes.launches.call(
            lambda: shell.ports.spawner.spawn(live.plan, live.group, live.stream.writer_fd),
            after_late=spawned_late,
        )
    except LateError as late:
        del shell.live[live.instance]  # discarded later: the thread still uses its descriptors
        _failed(shell, live.instance, live.number, str(late), hopeless=False)
    except Exception as error:  # noqa: BLE001 -- SpawnError is the adapter's; or no thread is left
        del shell.live[live.instance]
        await discard(shell, live)
        hopeless = getattr(error, "hopeless", False)
        _failed(shell, live.instance, live.number, _in_words(error), hopeless=hopeless)
    else:
        _take_up(shell, live, child)


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror.lower()}"
    is_told = isinstance(error, (LateError, OSError)) or hasattr(error, "hopeless")
    return str(error) if is_told else f"internal error: {type(error).__name__}: {error}"


def _failed(shell: Shell, name: str, attempt: int, reason: str, *, hopeless: bool) -> None:
    shell.post(name, LaunchFailed(shell.now(), attempt, reason, hopeless))


def _take_up(shell: Shell, live: LiveAttempt, child: Child) -> None:
    live.child = child
    live.pids_seen.add(child.identity.pid)
    live.progress_seconds = shell.now()

    def exited(status: int | None) -> None:
        live.exited, live.exit_status = True, status
        shell.post(live.instance, ProcessExited(shell.now(), live.number, status))

    shell.post(
        live.instance,
        Launched(shell.now(), live.number, live.plan.launch_id, child.identity),
    )
    child.watch_exit(exited)
    shell.start(observe(shell, live))
    if shell.ports.log_backend.name == "journal":
        shell.ports.notifier.keep(live.descriptor_name, live.stream.writer_fd)
    shell.recorder.save_attempt(
        live.instance,
        live.number,
        {
            **takeover_record(shell.instance(live.instance), live, child.identity),
            "number": live.number,
            "launch_id": live.plan.launch_id,
            "launched": live.launched_wall_seconds,
            "command": printable(live.plan.argv),
            "settings": dict(live.plan.settings),
            "changes": _changes(shell, live),
            "ended": None,
            "phase": None,
            "outcome": None,
        },
    )


def _caches_told(live: LiveAttempt) -> Announce:
    moved = ", ".join(live.caches_aside)
    text = f"compile caches may be damaged and were put aside: {moved}; remove them if this helps"
    data = {"attempt": live.number, "caches": list(live.caches_aside)}
    return Announce("caches-put-aside", text, data)


def _changes(shell: Shell, live: LiveAttempt) -> list[ChangeDocument]:
    """What this attempt runs with that was asked otherwise."""
    asked = shell.instance(live.instance).asked
    return [
        {"setting": name, "from": asked.get(name), "to": value}
        for name, value in live.plan.settings.items()
        if asked.get(name) != value
    ]


def _prepare(shell: Shell, name: str, effect: Launch, launch_id: str) -> LiveAttempt:
    """Blocking part before the process exists; undone when it fails. Raises OSError."""
    with ExitStack() as undo:
        undo.callback(remove_temporary, shell.state_directory, launch_prefix(launch_id))
        plan = _plan(shell, name, effect, launch_id)
        stream = shell.ports.log_backend.open_stream(name, effect.attempt, launch_id)
        undo.callback(stream.close)
        groups = shell.ports.groups
        group = groups.create(name, effect.attempt, launch_id)
        undo.callback(group.remove)
        live = LiveAttempt(
            instance=name,
            number=effect.attempt,
            spec=shell.instance(name).spec,
            plan=plan,
            group=group,
            stream=stream,
            launched_seconds=shell.now(),
            launched_wall_seconds=shell.ports.clock.wall_seconds(),
            oom_kills_at_launch=groups.oom_kills(),
            progress_seconds=shell.now(),
        )
        if effect.without_caches:
            live.caches_aside = _put_caches_aside(shell, live)
        undo.pop_all()
        return live


def _put_caches_aside(shell: Shell, live: LiveAttempt) -> tuple[str, ...]:
    """Not while another start may be writing into them: it would lose what it compiles."""
    caches = compile_caches(live.plan.environment)
    others = [one for one in tuple(shell.live.values()) if not one.ready]
    # of an adopted one nobody knows which it uses
    used = [compile_caches(one.plan.environment) or caches for one in others]
    if any({*one} & {*caches} for one in used):
        log.warning("compile-caches-stay", instance=live.instance, reason="another start uses them")
        return ()
    moved, problems = put_aside(caches, launch_prefix(live.plan.launch_id))
    for problem in problems:
        log.warning("compile-cache-stays", instance=live.instance, error=problem)
    return tuple(map(str, moved))


def _plan(shell: Shell, name: str, effect: Launch, launch_id: str) -> LaunchPlan:
    instance = shell.instance(name)
    user, _ = engine_user(instance.spec)
    state = shell.state_directory
    context = LaunchContext(
        gpu_indices=effect.gpu_indices,
        inherited=shell.environment,
        temporary_directory=str(make_temporary(state, launch_prefix(launch_id), user)),
        cache_directory=str(make_owned(state, f"cache/{user or 'daemon'}", user)),
        home_directory=None if user is None else pwd.getpwnam(user).pw_dir,
    )
    return LaunchPlan(
        instance=name,
        attempt=effect.attempt,
        launch_id=launch_id,
        argv=build_argv(instance.spec, effect.settings, instance.engine),
        environment=build_environment(instance.spec, context),
        settings=effect.settings,
        user=user,
        working_directory=_working_directory(instance.spec),
    )


def _working_directory(spec: InstanceSpec) -> str:
    """Relative model paths are the daemon's own directory's; absolute ones need none."""
    return str(Path.cwd()) if spec.model.startswith((".", "~")) else "/"
