"""Starts an engine as a direct child, in a session of its own and in its group before exec."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Protocol

from vllm_warden.adapters.process.account import Account, account_for
from vllm_warden.adapters.process.errors import SpawnError
from vllm_warden.adapters.process.identity import identity_of
from vllm_warden.adapters.process.privileges import without_new_privileges
from vllm_warden.adapters.process.watch_exit import WatchedProcess
from vllm_warden.core.model import ProcessIdentity
from vllm_warden.core.plan.spec import LaunchPlan

SHIM = 'echo "$$" >&0 && exec "$@" </dev/null; exit 126'
"""Enters the group, then becomes the engine.

The daemon has threads, so no Python may run between fork and exec. Standard input is the group's
cgroup.procs, opened by the daemon: the kernel checks the opener's rights, so this works although
the shell is already the engine's user.
"""

UMASK = 0o027
TEMPORARY = frozenset({errno.EAGAIN, errno.ENOMEM, errno.ENFILE, errno.EMFILE, errno.EINTR})


class Group(Protocol):
    path: str
    kind: str


class ProcessSpawner:
    """Satisfies ``daemon.ports.Spawner``."""

    def spawn(self, plan: LaunchPlan, group: Group, output_fd: int) -> WatchedProcess:
        """Start the plan; output_fd becomes stdout and stderr. Raises SpawnError."""
        account = account_for(plan.user)
        program = resolve_program(plan)
        members = open_members(group)
        try:
            process = start(plan, program, account, members, output_fd)
        finally:
            os.close(members)
        child = hold(process)
        note_leader(group, child.identity)
        return child


def resolve_program(plan: LaunchPlan) -> str:
    """Absolute path of the program; raises SpawnError when it cannot be executed."""
    word = plan.argv[0]
    found = shutil.which(word, path=plan.environment.get("PATH", os.defpath))
    if found is None:
        path = Path(word)
        reason = "it is not executable" if path.is_file() else "no such program"
        where = "" if "/" in word else " on the engine's PATH"
        raise SpawnError(
            f"cannot start {word}: {reason}{where}; check `command`",
            hopeless=True,
        )
    interpreter = missing_interpreter(Path(found))
    if interpreter is not None:
        raise SpawnError(
            f"cannot start {found}: its interpreter {interpreter} does not exist; "
            "was the virtual environment moved or removed?",
            hopeless=True,
        )
    return str(Path(found).absolute())


def missing_interpreter(program: Path) -> str | None:
    """The first word after ``#!`` when no such file exists."""
    try:
        with program.open("rb") as opened:
            first = opened.readline(512)
    except OSError:
        return None
    words = first[2:].split() if first.startswith(b"#!") else []
    if not words:
        return None
    interpreter = os.fsdecode(words[0])
    return None if Path(interpreter).exists() else interpreter


def open_members(group: Group) -> int:
    """The group's list of processes, opened for the child to add itself."""
    path = f"{group.path}/cgroup.procs"
    try:
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SpawnError(
            f"cannot open {path}: {error.strerror}; is the cgroup still there and writable?",
            hopeless=False,
        ) from error


def note_leader(group: Group, identity: ProcessIdentity) -> None:
    """Leave word which process leads the session: without a cgroup its pid alone proves nothing.

    Until the child is reaped nobody else can have its pid, so this is certain. A note that cannot
    be written costs only the proof.
    """
    if group.kind == "process_group":
        note = Path(group.path, "leader")
        with contextlib.suppress(OSError):
            note.write_text(f"{identity.pid} {identity.start_ticks}\n", encoding="ascii")


def start(
    plan: LaunchPlan, program: str, account: Account | None, members: int, output_fd: int
) -> subprocess.Popen[bytes]:
    """Fork and exec the shim.

    An engine of another user must not come back to the daemon's rights by a setuid program; one
    of our own user may have such a wrapper (sudo) on purpose.
    """

    def fork() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "-c", SHIM, "vllm-warden-spawn", program, *plan.argv[1:]],
            stdin=members,
            stdout=output_fd,
            stderr=output_fd,
            cwd=plan.working_directory,
            env=dict(plan.environment),
            start_new_session=True,
            umask=UMASK,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=account.groups if account else None,
        )

    try:
        return fork() if account is None else without_new_privileges(fork)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number else str(error)
        raise SpawnError(
            f"cannot start {program} in {plan.working_directory}: {reason}",
            hopeless=number not in TEMPORARY,
        ) from error


def hold(process: subprocess.Popen[bytes]) -> WatchedProcess:
    """Take the child over from subprocess.

    With a return code set, subprocess believes that it was waited for: otherwise it would reap
    dropped children by itself at the next start of any program, and the status would be lost.
    """
    pidfd = os.pidfd_open(process.pid)
    process.returncode = 0
    identity = identity_of(process.pid)
    if identity is None:  # a child that nobody has reaped is always in /proc
        os.close(pidfd)
        raise SpawnError("cannot read /proc: is it mounted?", hopeless=True)
    return WatchedProcess(identity, pidfd)
