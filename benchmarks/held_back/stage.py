"""Sets the scene for several scenarios at once: GPUs, models, one configuration, one daemon."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.held_back import truth
from benchmarks.held_back.draw import RESERVED_MIB
from benchmarks.held_back.engine import DIARY, TRUTH, write_program
from benchmarks.held_back.scenario import Scenario
from benchmarks.held_back.truth import MIB
from benchmarks.warden import free_port
from vllm_warden.api.client import ApiError, Client, DaemonUnreachable
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.era import ENVIRONMENT as VERSION
from vllm_warden.simulation.host import ENVIRONMENT as GPUS
from vllm_warden.simulation.host import Gpu, make_host
from vllm_warden.simulation.models import write_model
from vllm_warden.simulation.plan import SPEED

REPOSITORY = Path(__file__).parents[2]
SPEED_VALUE = 400.0
START_SECONDS = 30.0
STOP_SECONDS = 60.0

DAEMON = """\
[daemon]
socket = "{root}/s"
state_directory = "{root}/state"
log_backend = "file"
max_concurrent_starts = 64
"""
INSTANCE = """
[instance.{name}]
model = "{model}"
gpus = {gpus}
port = {port}
user = "{user}"
command = ["{program}", "serve"]
drain_seconds = 1.0
extra_args = {extra}
environment = {environment}

[instance.{name}.engine]
{engine}

[instance.{name}.adapt]
{adapt}

[instance.{name}.restart]
backoff_first_seconds = 0.2
backoff_max_seconds = 1.0
"""


class CannotStage(Exception):  # noqa: N818 - reads as the sentence it starts
    """The daemon did not begin or did not end; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one scenario is played: its first GPU, its port and the engine's diary."""

    scenario: Scenario
    name: str
    port: int
    first_gpu: Gpu
    diary: Path


@dataclass(slots=True)
class Stage:
    """One daemon below a directory. Processes of neighbours belong to it too."""

    root: Path
    places: list[Place] = field(default_factory=list)
    neighbours: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _daemon: subprocess.Popen[bytes] | None = None
    _environment: dict[str, str] = field(default_factory=dict)

    @property
    def client(self) -> Client:
        return Client(str(self.root / "s"))

    def start(self, scenarios: Sequence[Scenario]) -> None:
        """Raises CannotStage, CannotBuild."""
        gpus, at = self.root / "gpus", 0
        make_host(gpus, gpus=sum(one.truth.ranks for one in scenarios), reserved_mib=RESERVED_MIB)
        program = write_program(self.root / "bin")
        text = DAEMON.format(root=self.root)
        for scenario in scenarios:
            place, table = self._prepare(scenario, at, program)
            self.places.append(place)
            text += table
            at += scenario.truth.ranks
        config = self.root / "config.toml"
        config.write_text(text)
        config.chmod(0o640)
        self._environment = {**os.environ, **driver_environment(gpus)}
        command = [sys.executable, "-m", "benchmarks.held_back.daemon", "--config", str(config)]
        with (self.root / "output").open("ab") as output:
            self._daemon = subprocess.Popen(
                command, stdout=output, stderr=output, env=self._environment, cwd=REPOSITORY
            )
        self._until_it_answers()

    def _prepare(self, scenario: Scenario, first: int, program: Path) -> tuple[Place, str]:
        hidden, name = scenario.truth, f"s{scenario.number}"
        mine = self.root / name
        mine.mkdir()
        model = write_model(
            mine / "model", dict(scenario.model.config), scenario.model.checkpoint_bytes
        )
        truth.write(hidden, mine / "truth.json")
        indices = list(range(first, first + hidden.ranks))
        for index in indices:
            folder = self.root / "gpus" / f"gpu{index}"
            (folder / "total").write_text(f"{hidden.total + RESERVED_MIB * MIB}\n")
            (folder / "name").write_text(f"{scenario.gpu_name}\n")
        place = Place(
            scenario,
            name,
            free_port(),
            Gpu(self.root / "gpus" / f"gpu{first}"),
            mine / "diary.jsonl",
        )
        if scenario.neighbour is not None:
            self._settle(place, scenario.neighbour.now)
        return place, self._table(place, model, indices, program)

    def _settle(self, place: Place, held_bytes: int) -> None:
        neighbour = subprocess.Popen(["sleep", "1800"])
        self.neighbours[place.name] = neighbour
        place.first_gpu.hold(neighbour.pid, held_bytes)

    def _table(self, place: Place, model: Path, gpus: list[int], program: Path) -> str:
        scenario = place.scenario
        environment = {
            SPEED: f"{SPEED_VALUE}",
            VERSION: scenario.truth.version,
            GPUS: str(self.root / "gpus"),
            TRUTH: str(self.root / place.name / "truth.json"),
            DIARY: str(place.diary),
        }
        engine = {"tensor_parallel_size": scenario.truth.ranks, **scenario.asked}
        adapt: dict[str, object] = {
            name: {
                word: value for word, value in (("min", low), ("max", high)) if value is not None
            }
            for name, (low, high) in scenario.written.items()
        }
        if scenario.share:
            adapt["share_with_neighbours"] = True
        return INSTANCE.format(
            name=place.name,
            model=model,
            gpus=gpus,
            port=place.port,
            user=getpass.getuser(),
            program=program,
            extra=_toml(scenario.bad_flag.split()),
            environment=_toml(environment),
            engine=_lines(engine),
            adapt=_lines(adapt),
        )

    def _until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.client.get("/v1/status")
            except (DaemonUnreachable, ApiError) as error:
                assert self._daemon is not None
                if self._daemon.poll() is not None or time.monotonic() > deadline:
                    said = (self.root / "output").read_text(errors="replace")[-2000:]
                    raise CannotStage(f"cannot reach the daemon: {error}\n{said}") from error
                time.sleep(0.1)
            else:
                return

    def status(self) -> dict[str, dict[str, Any]]:
        """Every instance's entry in ``/v1/status``, by name."""
        document: Any = self.client.get("/v1/status")
        return {one["name"]: one for one in document["instances"]}

    def status_as_typed(self) -> dict[str, dict[str, Any]]:
        """The same as ``vllm-warden status --json`` prints it. Raises CannotStage."""
        words = ["-m", "vllm_warden", "--socket", str(self.root / "s"), "status", "--json"]
        done = subprocess.run(
            [sys.executable, *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self._environment,
        )
        if not done.stdout.strip():
            raise CannotStage(f"cannot read vllm-warden status --json: {done.stderr[-500:]}")
        return {one["name"]: one for one in json.loads(done.stdout)["instances"]}

    def incidents(self, name: str) -> list[dict[str, Any]]:
        """Newest first, as the list shows them."""
        with contextlib.suppress(DaemonUnreachable, ApiError):
            listed: Any = self.client.get(f"/v1/instances/{name}/incidents")
            return list(listed["incidents"])
        return []

    def leave(self, name: str) -> None:
        """The neighbour ends, and its memory is free."""
        neighbour = self.neighbours.pop(name)
        neighbour.kill()
        neighbour.wait()

    def clear(self) -> None:
        """Ends everything that this started: engines by the daemon, then the rest by pid."""
        with contextlib.suppress(DaemonUnreachable, ApiError):
            for place in self.places:
                self.client.post(f"/v1/instances/{place.name}/stop", {"now": True})
        if self._daemon is not None:
            self._daemon.terminate()
            try:
                self._daemon.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
        for name in list(self.neighbours):
            self.leave(name)


def _lines(values: dict[str, Any]) -> str:
    return "\n".join(f"{name} = {_toml(value)}" for name, value in values.items())


def _toml(value: object) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{name} = {_toml(one)}" for name, one in value.items())
        return f"{{ {inside} }}"
    return json.dumps(value)
