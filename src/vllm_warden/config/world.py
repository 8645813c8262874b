"""What in the world stands against the settings: the one module here that looks outside.

Used by ``check-config``, which shows the faults as warnings, and by the daemon, which fails the
instance where nothing can help and lets it wait where the missing thing may still come.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import pwd
import shutil
import socket
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePath

from vllm_warden.config.settings import DaemonSettings
from vllm_warden.config.translate import Translated
from vllm_warden.core.plan.spec import InstanceSpec


class ObstacleKind(StrEnum):
    """What is missing or in the way."""

    MODEL_DIRECTORY = "model_directory"
    PROGRAM = "program"
    USER = "user"
    GPU = "gpu"
    PORT = "port"
    ENVIRONMENT_FILE = "environment_file"
    STATE_DIRECTORY = "state_directory"
    LOG_BACKEND = "log_backend"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that the world lacks; ``key`` is the dotted TOML path of the setting concerned.

    ``hopeless`` True: waiting cannot help, a person must change something.
    """

    kind: ObstacleKind
    key: str
    value: str
    reason: str
    hopeless: bool
    hint: str = ""

    def __str__(self) -> str:
        """One line in house style, the hint on a second one."""
        text = f"cannot use {self.key} = {self.value}: {self.reason}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


def instance_faults(
    translated: Translated, gpus: Sequence[tuple[int, str]] | None = None
) -> tuple[Obstacle, ...]:
    """Everything against one configured instance, its environment file included."""
    faults = world_faults(translated.spec, gpus)
    if translated.problem is None:
        return faults
    secrets = Obstacle(
        ObstacleKind.ENVIRONMENT_FILE,
        f"instance.{translated.spec.name}.environment_file",
        str(translated.environment_file),
        translated.problem,
        hopeless=True,
        hint="without it the engine would serve without its API key",
    )
    return (secrets, *faults)


def world_faults(
    spec: InstanceSpec,
    gpus: Sequence[tuple[int, str]] | None = None,
    *,
    own_ports: Collection[int] = (),
) -> tuple[Obstacle, ...]:
    """Everything against one instance, hopeless or not, in the order of its keys.

    ``gpus`` are index and UUID of each GPU that NVML reports; None where nobody asked NVML, and
    then nothing is said about GPUs. ``own_ports`` are held by engines of ours and so not "taken".
    """
    return tuple(_checks(spec, gpus, own_ports))


def daemon_faults(daemon: DaemonSettings) -> tuple[Obstacle, ...]:
    """What keeps the daemon itself from running: its state directory and its log backend."""
    return tuple(_daemon_checks(daemon))


def engine_user(spec: InstanceSpec) -> tuple[str | None, str | None]:
    """The user that the engine runs as (None: the daemon's own), and a warning where it is root.

    Without a configured user a daemon that runs as root takes ``vllm`` where that user exists.
    """
    if spec.user is not None or os.geteuid() != 0:
        return spec.user, None
    if _user_exists("vllm"):
        return "vllm", None
    return None, f"instance.{spec.name} runs as root: set user, or add a system user named vllm"


def admin_uids(admins: Sequence[int | str]) -> tuple[frozenset[int], tuple[str, ...]]:
    """Uids of ``[api] admins``, and the names that this machine does not know."""
    uids: set[int] = set()
    unknown: list[str] = []
    for admin in admins:
        if isinstance(admin, int):
            uids.add(admin)
        elif _user_exists(admin):
            uids.add(pwd.getpwnam(admin).pw_uid)
        else:
            unknown.append(admin)
    return frozenset(uids), tuple(unknown)


def _checks(
    spec: InstanceSpec, gpus: Sequence[tuple[int, str]] | None, own_ports: Collection[int]
) -> Iterator[Obstacle]:
    for check in (_model, _programs, _user):
        yield from check(spec)
    if gpus is not None:
        yield from _gpus(spec, gpus)
    if spec.port not in own_ports:
        yield from _port(spec)


def _model(spec: InstanceSpec) -> Iterator[Obstacle]:
    if not spec.model.startswith(("/", "./", "../")):
        return  # a Hugging Face id, which the engine resolves
    key, path = f"instance.{spec.name}.model", Path(spec.model)
    try:
        is_there = path.exists()
    except OSError as error:  # a path component that may not be searched, or a dead mount
        reason = (error.strerror or str(error)).lower()
        yield Obstacle(ObstacleKind.MODEL_DIRECTORY, key, spec.model, reason, hopeless=False)
        return
    if not is_there:
        yield Obstacle(
            ObstacleKind.MODEL_DIRECTORY,
            key,
            spec.model,
            "there is no such directory",
            hopeless=False,
            hint=f"{_nearest_parent(path)} exists; is a mount missing?",
        )
    elif path.is_dir() and not any((path / name).exists() for name in _MODEL_FILES):
        yield Obstacle(
            ObstacleKind.MODEL_DIRECTORY,
            key,
            spec.model,
            f"it holds none of {', '.join(_MODEL_FILES)}",
            hopeless=False,
            hint="name the directory that holds config.json; is the download finished?",
        )


# What vLLM 0.32 looks for to tell a model directory (transformers and Mistral formats).
_MODEL_FILES = ("config.json", "params.json")


def _nearest_parent(path: Path) -> Path:
    return next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))


def _programs(spec: InstanceSpec) -> Iterator[Obstacle]:
    """The first word is what is executed; a wrapper executes the first word named vllm."""
    search = spec.environment.get("PATH", os.environ.get("PATH", os.defpath))
    named = [word for word in spec.command[1:] if PurePath(word).name == "vllm"]
    for word in dict.fromkeys([spec.command[0], *named[:1]]):
        if shutil.which(word, path=search) is not None:
            continue
        is_path = "/" in word
        reason = _why_not_executable(Path(word)) if is_path else "it is not on PATH"
        yield Obstacle(
            ObstacleKind.PROGRAM,
            f"instance.{spec.name}.command",
            word,
            reason,
            hopeless=True,
            hint="name it with its full path" if not is_path else "install it, or correct the path",
        )


def _why_not_executable(path: Path) -> str:
    try:
        if path.is_dir():
            return "it is a directory"
        return "it is not executable" if path.exists() else "there is no such file"
    except OSError as error:
        return (error.strerror or str(error)).lower()


def _user(spec: InstanceSpec) -> Iterator[Obstacle]:
    if spec.user is None:
        return
    key = f"instance.{spec.name}.user"
    if not _user_exists(spec.user):
        reason = "there is no such user"
        yield Obstacle(
            ObstacleKind.USER, key, spec.user, reason, hopeless=True,
            hint=f"useradd --system --create-home {spec.user}",
        )  # fmt: skip
    elif os.geteuid() not in (0, pwd.getpwnam(spec.user).pw_uid):
        reason = "only root may start programs as somebody else"
        yield Obstacle(
            ObstacleKind.USER, key, spec.user, reason, hopeless=True,
            hint="leave user out, or run the daemon as root",
        )  # fmt: skip


def _user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except (KeyError, ValueError):  # ValueError: a NUL in the name
        return False
    return True


def _gpus(spec: InstanceSpec, known: Sequence[tuple[int, str]]) -> Iterator[Obstacle]:
    names = {name for gpu in known for name in gpu}
    present = ", ".join(str(index) for index, _ in known) or "none"
    for position, gpu in enumerate(spec.gpus):
        if gpu not in names:
            yield Obstacle(
                ObstacleKind.GPU,
                f"instance.{spec.name}.gpus[{position}]",
                str(gpu),
                f"this host has no such GPU (indices present: {present})",
                hopeless=False,
            )


def _port(spec: InstanceSpec) -> Iterator[Obstacle]:
    family = socket.AF_INET6 if ":" in spec.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As vLLM binds: connections in TIME_WAIT are no obstacle, a listener is.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((spec.host, spec.port))
        except (OSError, UnicodeError) as error:
            yield _port_fault(spec, error)


def _port_fault(spec: InstanceSpec, error: OSError | UnicodeError) -> Obstacle:
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EADDRINUSE:
        reason, hint = "another program listens on it", f"see who: ss -ltnp 'sport = :{spec.port}'"
    elif code == errno.EACCES:
        reason, hint = "ports below 1024 need a privilege", "take one above 1023"
    else:
        reason = (
            f"cannot listen on {spec.host}: {getattr(error, 'strerror', None) or error}".lower()
        )
        hint = "host is an address of this machine"
    key = f"instance.{spec.name}.port"
    return Obstacle(ObstacleKind.PORT, key, str(spec.port), reason, hopeless=False, hint=hint)


def _daemon_checks(daemon: DaemonSettings) -> Iterator[Obstacle]:
    directory = Path(daemon.state_directory)
    place = directory if directory.exists() else _nearest_parent(directory)
    if not _is_writable(place):
        user = _own_name()
        yield Obstacle(
            ObstacleKind.STATE_DIRECTORY,
            "daemon.state_directory",
            daemon.state_directory,
            f"{place} is not writable for user {user}",
            hopeless=True,
            hint=f"mkdir -p {directory} && chown {user} {directory}, or set another one",
        )
    if daemon.log_backend == "journal" and not _has_journal_module():
        yield Obstacle(
            ObstacleKind.LOG_BACKEND,
            "daemon.log_backend",
            "journal",
            "the Python module systemd is not installed",
            hopeless=True,
            hint="apt-get install libsystemd-dev pkg-config gcc && "
            "pip install 'vllm-warden[journal]', or set log_backend = \"file\"",
        )


def _is_writable(directory: Path) -> bool:
    # Tried, not asked: access(2) says yes to root on /proc, and on full or failing disks.
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _has_journal_module() -> bool:
    try:
        return importlib.util.find_spec("systemd.journal") is not None
    except ModuleNotFoundError:
        return False
