"""One host under chaos: a daemon with three instances, simulated GPUs, and bystanders."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.host_parts import SmallDisk, WallClock
from tests.wardens import Warden, free_port
from vllm_warden.adapters.cgroup.place import root_name
from vllm_warden.api.client import ApiError, DaemonUnreachable
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import make_host
from vllm_warden.simulation.program import write_program

SPEED = 60
GPUS = 3
INSTANCES = {"two": (0, 1), "one": (2,), "cpu": ()}
"""Tensor parallel over two GPUs, one GPU, none."""
BYSTANDER = (
    "import ctypes, sys, time\n"
    "ctypes.CDLL(None).prctl(15, b'VLLM::EngineCore', 0, 0, 0)\n"
    "time.sleep(86400)\n"
)
"""Looks like an engine by its name and its words, and is none of ours."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that a daemon has accepted as one of its events."""

    daemon_pid: int
    event: int
    instance: str
    verb: str


class World:
    """What faults act on and invariants look at."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.gpus = make_host(directory / "gpus", gpus=GPUS, linger_seconds=0.2)
        self.disk = SmallDisk(directory / "state")
        self.clock = WallClock(directory)
        environment = {**self.clock.environment, **driver_environment(self.gpus)}
        self.warden = Warden(directory, log_backend="file", environment=environment)
        self.bystanders: list[subprocess.Popen[bytes]] = []
        self.asked: list[Asked] = []
        self.unkept: dict[str, int] = {}
        """Up to which attempt the history may have gaps: what a daemon that is killed kept in
        memory while it could not write is lost with it."""
        self._configure()

    def _configure(self) -> None:
        program = write_program(self.directory / "bin")
        model = self.directory / "model"
        model.mkdir()
        (model / "config.json").write_text(
            '{"vocab_size": 32000, "max_position_embeddings": 4096, "num_hidden_layers": 4}'
        )
        tables = []
        for name, gpus in INSTANCES.items():
            engine = f"tensor_parallel_size = {len(gpus)}\n" if len(gpus) > 1 else ""
            simulated = f', WARDEN_SIMULATED_GPUS = "{self.gpus}"' if gpus else ""
            tables.append(
                f'[instance.{name}]\nmodel = "{model}"\ngpus = {list(gpus)}\n'
                f'port = {free_port()}\ncommand = ["{program}", "serve"]\ndrain_seconds = 1.0\n'
                f'environment = {{ WARDEN_SIMULATED_SPEED = "{SPEED}"{simulated} }}\n'
                f"[instance.{name}.engine]\n{engine}"
                f"[instance.{name}.restart]\nstartup_failures_max = 100000\n"
                "unchanged_repeats_max = 100000\ncrashes_max = 100000\n"
                "backoff_first_seconds = 0.2\nbackoff_max_seconds = 0.5\n"
            )
        self.warden.write_config(*tables)

    def start(self) -> None:
        for _ in range(2):
            words = [sys.executable, "-c", BYSTANDER, "vllm", "serve"]
            self.bystanders.append(subprocess.Popen(words, start_new_session=True))
        self.warden.start()

    def end(self) -> None:
        """Whatever happened, nothing of ours stays."""
        with contextlib.suppress(Exception):
            self.disk.empty()
            self.resume_all()
        try:
            self.warden.end()
        finally:
            self.disk.end()
            for one in self.bystanders:
                one.kill()
                one.wait()

    @property
    def daemon_pid(self) -> int:
        assert self.warden.process is not None
        return self.warden.process.pid

    def kill_daemon(self) -> None:
        assert self.warden.process is not None
        self._note_unkept()
        self.warden.process.kill()
        self.warden.process.wait()

    def start_daemon(self) -> None:
        self.warden.start(wait_seconds=30)
        self._note_unkept()

    def _note_unkept(self) -> None:
        with contextlib.suppress(DaemonUnreachable):
            if self.disk.is_full or any("history" in one for one in self.conditions()):
                self.unkept = {name: int(one["attempt"]) for name, one in self.status().items()}

    def conditions(self) -> list[str]:
        document: Any = self.warden.client.get("/v1/status")
        return list(document["daemon"]["conditions"])

    def ask(self, name: str, verb: str) -> None:
        """As a person would; a refusal is an answer too."""
        with contextlib.suppress(ApiError, DaemonUnreachable):
            accepted: Any = self.warden.client.post(f"/v1/instances/{name}/{verb}")
            if any("history" in one for one in self.conditions()):
                return  # numbers that are given without the history are given anew with it
            self.asked.append(Asked(self.daemon_pid, int(accepted["event"]), name, verb))

    def status(self) -> dict[str, dict[str, Any]]:
        document: Any = self.warden.client.get("/v1/status")
        return {one["name"]: one for one in document["instances"]}

    def parents(self) -> dict[str, int]:
        """The living parent processes, as the daemon reports them."""
        with contextlib.suppress(DaemonUnreachable):
            return {
                name: one["pids"]["parent"]
                for name, one in self.status().items()
                if one["pids"]["parent"]
            }
        return {}

    def engine_pids(self, name: str) -> list[int]:
        with contextlib.suppress(DaemonUnreachable):
            return [int(pid) for pid in self.status()[name]["pids"]["engine"]]
        return []

    def groups(self) -> dict[str, dict[str, list[int]]]:
        """Living processes by instance and attempt group, read from the kernel's own tree."""
        found: dict[str, dict[str, list[int]]] = {}
        root = root_name(self.directory / "state")
        for place, _, _ in os.walk(cgroup_root()):
            directory = Path(place)
            if directory.parent.parent.name != root or not directory.name.startswith("attempt-"):
                continue
            living = [pid for pid in pids_in(directory) if state_of(pid) not in ("Z", "X", "")]
            if living:
                name = directory.parent.name.removeprefix("instance-")
                found.setdefault(name, {})[directory.name] = living
        return found

    def living(self, name: str) -> list[int]:
        """All processes of an instance, as the kernel has them."""
        return [pid for one in self.groups().get(name, {}).values() for pid in one]

    def resume_all(self) -> None:
        """Continue whatever a fault has stopped."""
        for attempts in self.groups().values():
            for pids in attempts.values():
                for pid in pids:
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGCONT)


def cgroup_root() -> Path:
    """Where cgroup2 is mounted."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, tail = line.partition(" - ")
        if tail.startswith("cgroup2 "):
            return Path(fields.split()[4])
    raise AssertionError("no cgroup2 here")


def pids_in(cgroup: Path) -> list[int]:
    try:
        return [int(pid) for pid in (cgroup / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@contextlib.contextmanager
def running(directory: Path) -> Iterator[World]:
    world = World(directory)
    try:
        world.start()
        yield world
    finally:
        world.end()
