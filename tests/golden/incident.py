"""Reads a golden incident: computes it by hand, and plays it through the daemon's machine."""

from __future__ import annotations

import ast
import math
import operator
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.convergence.eras import ERAS
from benchmarks.convergence.scenario import (
    Load,
    Move,
    Neighbour,
    Operator,
    Scenario,
    Truth,
    Wall,
)
from benchmarks.convergence.seen import model_facts, readings_of
from benchmarks.convergence.warden import spec_of
from benchmarks.convergence.world import World
from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.diagnose.redact import redact
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.machine import step
from vllm_warden.core.lifecycle.states import Instance
from vllm_warden.core.model import ProcessIdentity
from vllm_warden.core.plan.gate import GateReport
from vllm_warden.core.plan.spec import EngineFacts

DIRECTORY = Path(__file__).parent / "incidents"
FILES = sorted(DIRECTORY.glob("*.toml"))
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "floor": math.floor,
    "min": min,
    "max": max,
}
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True, slots=True)
class Incident:
    """One file. ``written`` is its content."""

    name: str
    written: dict[str, Any]

    @property
    def log(self) -> list[str]:
        path = DIRECTORY / str(self.written["log"])
        return path.read_text(encoding="utf-8").splitlines()

    @property
    def changes(self) -> dict[str, float]:
        return {one["setting"]: one["to"] for one in self.written["decision"]["changes"]}

    @property
    def in_force(self) -> dict[str, Any]:
        return {**self.written["asked"], **self.changes}

    def scenario(self) -> Scenario:
        """The same host, model and story for the simulator."""
        written, story = self.written, self.written["story"]
        truth = Truth(era=ERAS[written["engine"]], **written["truth"])
        bounds = dict(written["bounds"])
        share = bool(bounds.pop("share_with_neighbours", False))
        bound = {name: (one.get("min"), one.get("max")) for name, one in bounds.items()}
        asked = Operator(written["asked"], {}, bound, share)
        taken = story.get("neighbour_bytes")
        return Scenario(
            0,
            "golden",
            self.name,
            truth,
            asked,
            Neighbour(0, (Move(taken, at_wall=Wall.WARMUP),)) if taken else None,
            Load(
                full_batch_after=story.get("full_batch_after", 120.0),
                spike_bytes=story.get("spike_bytes", 0),
                spike_after=story.get("spike_after_seconds", 900.0),
            ),
        )


def incident(path: Path) -> Incident:
    return Incident(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))


def by_hand(found: Incident) -> dict[str, float]:
    """All names of the file with their values, each line computed from those above it."""
    known: dict[str, float] = {}
    for name, value in found.written["printed"].items():
        known[name] = computed(value, known) if isinstance(value, str) else value
    for line in found.written["arithmetic"]:
        known[line["name"]] = computed(line["sum"], known)
    return known


def computed(text: str, known: dict[str, float]) -> float:
    """The value of a sum: names, numbers, + - * /, floor, min and max; nothing else."""
    return _value(ast.parse(text, mode="eval").body, known)


def _value(node: ast.expr, known: dict[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return known[name]
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_value(left, known), _value(right, known))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*(_value(one, known) for one in arguments))
        case _:
            raise ValueError(ast.dump(node))


@dataclass(slots=True)
class Daemon:
    """The machine of one instance, driven event by event as the daemon's shell would."""

    found: Incident
    instance: Instance
    now: float = 0.0

    def tell(self, event: ev.Event) -> None:
        self.instance, _ = step(self.instance, event)

    def start(self) -> None:
        scenario = self.found.scenario()
        world = World(scenario)
        engine = EngineFacts(version=self.found.written["engine"], is_cpu=False)
        report = GateReport(
            gpus=readings_of(scenario, world), engine=engine, model=model_facts(scenario)
        )
        timer = self.instance.timer
        assert timer is not None
        self.tell(ev.GateReported(self.now, timer, report))
        assert self.instance.attempt is not None
        number = self.instance.attempt.number
        self.tell(ev.Launched(self.now, number, "launch", ProcessIdentity(4000, 1, "boot")))

    def serve(self, seconds: float, *, soaked: bool) -> None:
        number = self.instance.attempts_made
        self.tell(ev.BecameReady(self.now, number))
        self.now += seconds
        if soaked:
            self.tell(ev.RequestsServed(self.now - 1, number, 5000))

    def die(self) -> tuple[Diagnosis, Decision]:
        number, written = self.instance.attempts_made, self.found.written
        self.tell(ev.ProcessExited(self.now, number, 1))
        was_ready = written["diagnosis"]["phase"] == "serving"
        assert self.instance.attempt is not None
        evidence = Evidence(
            records=tuple(
                LogRecord(count, redact(line)) for count, line in enumerate(self.found.log, 1)
            ),
            exit_status=0 if was_ready else 1,
            was_ready=was_ready,
            settings=self.instance.attempt.settings,
            engine_version=written["engine"],
            memory_total_bytes=dict.fromkeys(
                range(written["truth"]["ranks"]), written["truth"]["total"]
            ),
        )
        self.tell(ev.EvidenceGathered(self.now, number, evidence, diagnose(evidence), 0.5))
        assert self.instance.decision is not None
        assert self.instance.diagnosis is not None
        return self.instance.diagnosis, self.instance.decision


def decided(found: Incident) -> tuple[Diagnosis, list[Decision]]:
    """The death's diagnosis and what the daemon decides; twice where it takes a second death."""
    daemon = Daemon(found, Instance(spec_of(found.scenario())))
    daemon.tell(ev.StartRequested(0.0, "operator"))
    story, decisions = found.written["story"], []
    for turn in range(2 if "first" in found.written["decision"] else 1):
        daemon.start()
        if "spike_after_seconds" in story:
            daemon.serve(20 * 3600.0 if turn else story["spike_after_seconds"], soaked=True)
        elif found.written["diagnosis"]["phase"] == "serving":
            daemon.serve(story["full_batch_after"], soaked=False)
        diagnosis, decision = daemon.die()
        decisions.append(decision)
        daemon.now += 1
    return diagnosis, decisions
