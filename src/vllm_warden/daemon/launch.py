"""Starts one attempt: log stream, group, temporary directory, process, observers."""

from __future__ import annotations

import os
import pwd
import secrets
import tempfile
from pathlib import Path

from vllm_warden.api.schema import ChangeDocument
from vllm_warden.config.world import engine_user
from vllm_warden.core.lifecycle.effects import Launch
from vllm_warden.core.lifecycle.events import Launched, LaunchFailed, ProcessExited
from vllm_warden.core.plan.command_line import (
    LaunchContext,
    build_argv,
    build_environment,
    printable,
)
from vllm_warden.core.plan.spec import InstanceSpec, LaunchPlan
from vllm_warden.daemon.live_attempt import LiveAttempt
from vllm_warden.daemon.observe import deliver_to, observe
from vllm_warden.daemon.ports import Child
from vllm_warden.daemon.release import discard
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

TMPDIR_BYTES_MAX = 70
"""A Unix socket's path ends at 107 bytes (unix(7)), and vLLM adds 37 to the directory."""


async def launch(shell: Shell, name: str, effect: Launch) -> None:
    """Answer with Launched or LaunchFailed; a failed launch leaves nothing behind."""
    launch_id = secrets.token_hex(8)
    try:
        live = await shell.lanes.launches.call(lambda: _prepare(shell, name, effect, launch_id))
    except (LateError, OSError) as error:
        _failed(shell, name, effect.attempt, str(error), hopeless=False)
        return
    shell.live[name] = live
    live.stream.start_reading(deliver_to(shell, live))
    try:
        child = await shell.lanes.launches.call(
            lambda: shell.ports.spawner.spawn(live.plan, live.group, live.stream.writer_fd)
        )
    except Exception as error:  # noqa: BLE001 -- SpawnError is the adapter's; nothing else is expected
        del shell.live[name]
        await discard(shell, live)
        hopeless = getattr(error, "hopeless", False)
        _failed(shell, name, effect.attempt, str(error), hopeless=hopeless)
        return
    _take_up(shell, live, child)


def _failed(shell: Shell, name: str, attempt: int, reason: str, *, hopeless: bool) -> None:
    shell.post(name, LaunchFailed(shell.now(), attempt, reason, hopeless))


def _take_up(shell: Shell, live: LiveAttempt, child: Child) -> None:
    live.child = child
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
    shell.recorder.save_attempt(
        live.instance,
        live.number,
        {
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


def _changes(shell: Shell, live: LiveAttempt) -> list[ChangeDocument]:
    """What this attempt runs with that was asked otherwise."""
    asked = shell.instance(live.instance).asked
    return [
        {"setting": name, "from": asked.get(name), "to": value}
        for name, value in live.plan.settings.items()
        if asked.get(name) != value
    ]


def _prepare(shell: Shell, name: str, effect: Launch, launch_id: str) -> LiveAttempt:
    """Blocking part before the process exists. Raises OSError."""
    instance = shell.instance(name)
    user, _ = engine_user(instance.spec)
    context = LaunchContext(
        gpu_indices=effect.gpu_indices,
        inherited=shell.environment,
        temporary_directory=str(_temporary_directory(shell, launch_id[:8], user)),
        cache_directory=str(_directory(shell, f"cache/{user or 'daemon'}", user)),
        home_directory=None if user is None else pwd.getpwnam(user).pw_dir,
    )
    plan = LaunchPlan(
        instance=name,
        attempt=effect.attempt,
        launch_id=launch_id,
        argv=build_argv(instance.spec, effect.settings, instance.engine),
        environment=build_environment(instance.spec, context),
        settings=effect.settings,
        user=user,
        working_directory=_working_directory(instance.spec),
    )
    groups = shell.ports.groups
    stream = shell.ports.log_backend.open_stream(name, effect.attempt, launch_id)
    return LiveAttempt(
        instance=name,
        number=effect.attempt,
        plan=plan,
        group=groups.create(name, effect.attempt, launch_id),
        stream=stream,
        launched_seconds=shell.now(),
        launched_wall_seconds=shell.ports.clock.wall_seconds(),
        oom_kills_at_launch=groups.oom_kills(),
        progress_seconds=shell.now(),
    )


def _working_directory(spec: InstanceSpec) -> str:
    """Relative model paths are the daemon's own directory's; absolute ones need none."""
    return str(Path.cwd()) if spec.model.startswith((".", "~")) else "/"


def _temporary_directory(shell: Shell, name: str, user: str | None) -> Path:
    """The attempt's own TMPDIR, short enough for the Unix sockets that vLLM makes in it."""
    if len(str(shell.state_directory / "t" / name)) <= TMPDIR_BYTES_MAX:
        return _directory(shell, f"t/{name}", user)
    directory = Path(tempfile.gettempdir()) / f"vllm-warden-{name}"
    directory.mkdir(mode=0o700)
    _give_to(directory, user)
    return directory


def _directory(shell: Shell, relative: str, user: str | None) -> Path:
    """A directory below the state directory that belongs to the engine's user."""
    directory = shell.state_directory / relative
    directory.parent.mkdir(mode=0o710, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    _give_to(directory, user)
    if user is not None:
        # the engine's user must reach its own directory, and may not list the others'
        for passed in (directory.parent, shell.state_directory):
            passed.chmod(passed.stat().st_mode | 0o001)
    return directory


def _give_to(directory: Path, user: str | None) -> None:
    if user is not None:
        account = pwd.getpwnam(user)
        os.chown(directory, account.pw_uid, account.pw_gid)
