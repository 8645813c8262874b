"""Lets mypy prove that adapters and fakes fit the daemon's ports; nothing here runs."""

from __future__ import annotations

from tests.fakes.clock import FakeClock
from tests.fakes.gpus import FakeGpus
from tests.fakes.groups import FakeAttemptGroup, FakeGroups
from tests.fakes.health import FakeHealth
from tests.fakes.log_backend import FakeLog, FakeStream
from tests.fakes.process_watch import FakeProcessWatch
from tests.fakes.spawner import FakeChild
from vllm_warden.adapters.cgroup.attempt import CgroupAttempt
from vllm_warden.adapters.cgroup.groups import CgroupGroups
from vllm_warden.adapters.cgroup.process_group import ProcessGroups, SessionAttempt
from vllm_warden.adapters.clock import SystemClock
from vllm_warden.adapters.engine_probe.engine import EngineInstallation
from vllm_warden.adapters.health.http import HttpHealth
from vllm_warden.adapters.journal.backend import JournalLog
from vllm_warden.adapters.journal.stream import JournalStream
from vllm_warden.adapters.log_file.backend import FileLog
from vllm_warden.adapters.log_file.stream import FileStream
from vllm_warden.adapters.model_directory.probe import ModelDirectory
from vllm_warden.adapters.nvml.gpus import NvmlGpus
from vllm_warden.adapters.process.spawn import ProcessSpawner
from vllm_warden.adapters.process.tree import ProcessTree
from vllm_warden.adapters.process.watch_exit import WatchedProcess
from vllm_warden.adapters.systemd.notify import SystemdNotifier
from vllm_warden.daemon import ports


def clocks(real: SystemClock, fake: FakeClock) -> tuple[ports.Clock, ...]:
    return real, fake


def streams(
    file: FileStream, journal: JournalStream, fake: FakeStream
) -> tuple[ports.LogStream, ...]:
    return file, journal, fake


def log_backends(file: FileLog, journal: JournalLog, fake: FakeLog) -> tuple[ports.LogBackend, ...]:
    return file, journal, fake


def attempts(
    cgroup: CgroupAttempt, session: SessionAttempt, fake: FakeAttemptGroup
) -> tuple[ports.AttemptGroup, ...]:
    return cgroup, session, fake


def groups(
    cgroup: CgroupGroups, sessions: ProcessGroups, fake: FakeGroups
) -> tuple[ports.Groups, ...]:
    return cgroup, sessions, fake


def children(real: WatchedProcess, fake: FakeChild) -> tuple[ports.Child, ...]:
    return real, fake


def spawners(real: ProcessSpawner) -> ports.Spawner:
    """The fake one takes only fake groups, which is no fault in a test."""
    return real


def watches(real: ProcessTree, fake: FakeProcessWatch) -> tuple[ports.ProcessWatch, ...]:
    return real, fake


def gpus(real: NvmlGpus, fake: FakeGpus) -> tuple[ports.Gpus, ...]:
    return real, fake


def healths(real: HttpHealth, fake: FakeHealth) -> tuple[ports.Health, ...]:
    return real, fake


def probes(engine: EngineInstallation) -> ports.EngineProbe:
    return engine


def model_probes(model: ModelDirectory) -> ports.ModelProbe:
    return model


def notifiers(real: SystemdNotifier) -> ports.Notifier:
    return real
