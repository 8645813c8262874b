"""Puts the real adapters behind the ports; the only file that names concrete classes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from vllm_warden.adapters.cgroup.groups import open_groups
from vllm_warden.adapters.clock import SystemClock
from vllm_warden.adapters.engine_probe.catalogue_texts import absent_from_source
from vllm_warden.adapters.engine_probe.engine import EngineInstallation
from vllm_warden.adapters.health.http import HttpHealth
from vllm_warden.adapters.journal.backend import JournalLog
from vllm_warden.adapters.journal.kernel_log import JournalKernelLog
from vllm_warden.adapters.journal.own_log import JournalDatagram
from vllm_warden.adapters.log_file.backend import FileLog
from vllm_warden.adapters.model_directory.probe import ModelDirectory
from vllm_warden.adapters.nvml.gpus import NvmlGpus
from vllm_warden.adapters.process.adopt import EarlierProcesses
from vllm_warden.adapters.process.ports import port_holder
from vllm_warden.adapters.process.shared_memory import HostSharedMemory
from vllm_warden.adapters.process.spawn import ProcessSpawner
from vllm_warden.adapters.process.start_lock import StartLock, StartTaken
from vllm_warden.adapters.process.subreaper import become_subreaper, reap_orphans
from vllm_warden.adapters.process.tree import ProcessTree
from vllm_warden.adapters.store.history import History
from vllm_warden.adapters.store.lock import StateLock
from vllm_warden.adapters.store.state_file import StateFile
from vllm_warden.adapters.systemd.job import unit_goes_on
from vllm_warden.adapters.systemd.notify import SystemdNotifier
from vllm_warden.daemon.durable import is_whole
from vllm_warden.daemon.own_log import is_journal_stream, log_to_journal, log_to_stderr
from vllm_warden.daemon.ports import LogBackend
from vllm_warden.daemon.shell import Ports

UMASK = 0o027
"""Nothing that the daemon makes is for everybody to read, whatever umask it was started with."""


def keep_files_private() -> None:
    """Call it before anything is made."""
    os.umask(UMASK)


def connect_own_log(*, quiet: bool = False) -> None:
    """To journald where systemd started us, otherwise to stderr."""
    if is_journal_stream():
        log_to_journal(JournalDatagram())
    else:
        log_to_stderr(quiet=quiet)


def engine_installation() -> EngineInstallation:
    """Asks an engine program for its version."""
    return EngineInstallation(os.environ.get("PATH"))


def open_log_backend(name: str, state_directory: Path) -> LogBackend:
    """Raises JournalUnavailable where the journal's Python module is missing."""
    return JournalLog() if name == "journal" else FileLog(state_directory)


def open_ports(log_backend: LogBackend, state_directory: Path) -> Ports:
    """All adapters of this machine."""
    return Ports(
        clock=SystemClock(),
        log_backend=log_backend,
        groups=open_groups(state_directory),
        spawner=ProcessSpawner(),
        watch=ProcessTree(),
        gpus=NvmlGpus(),
        health=HttpHealth(),
        engine_probe=engine_installation(),
        model_probe=ModelDirectory(),
        absent_from_source=partial(absent_from_source, path=os.environ.get("PATH")),
        notifier=SystemdNotifier(),
        port_holder=port_holder,
        become_subreaper=become_subreaper,
        reap_orphans=reap_orphans,
        earlier=EarlierProcesses(),
        shared_memory=HostSharedMemory(),
        unit_goes_on=unit_goes_on,
        lock_start=lock_start,
        kernel_log=JournalKernelLog() if log_backend.name == "journal" else None,
    )


def lock_start(uuids: Sequence[str]) -> StartLock | str:
    """The lock, or who has it."""
    try:
        return StartLock(uuids)
    except StartTaken as taken:
        return str(taken)
    except OSError as error:
        return f"no lock can be had: {error.strerror}"


def open_store(state_directory: Path) -> tuple[StateLock, StateFile, History]:
    """Lock first. Raises AlreadyRunning and StateDirectoryError."""
    lock = StateLock(state_directory)
    return (
        lock,
        StateFile(state_directory / "state.json", is_whole),
        History(state_directory / "history.db"),
    )


def engine_environment() -> Mapping[str, str]:
    """What engines may inherit from; the core's allow-list chooses."""
    return dict(os.environ)
