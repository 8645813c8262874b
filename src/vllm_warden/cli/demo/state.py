"""What the demo has seen so far, folded from the daemon's documents and events; no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from vllm_warden.api.client import Json

PHASES = (
    ("args", "arguments"),
    ("init_device", "GPUs"),
    ("load", "weights"),
    ("profile", "profile"),
    ("kv_plan", "KV plan"),
    ("kv_alloc", "KV cache"),
    ("kernels", "kernels"),
    ("cudagraph", "CUDA graphs"),
    ("warmup", "sampler"),
    ("serving", "serving"),
)
"""The phases of a start in order, with the words of the picture."""

ORDER = {phase: place for place, (phase, _) in enumerate(PHASES)}
ENDED_STATES = frozenset({"held", "failed", "stopped"})


@dataclass(slots=True)
class Attempt:
    """One launch: how far it came, and how it went."""

    number: int
    began_seconds: float
    phase: str = "args"
    ended_seconds: float | None = None
    ready_seconds: float | None = None
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class DemoState:
    """Seconds count from the start of the demo."""

    instance: str
    now_seconds: float = 0
    state: str = "starting"
    reason: str = ""
    gpus: list[Json] = field(default_factory=list)
    used_by_instance: tuple[int, ...] = ()
    processes: Mapping[str, object] = field(default_factory=dict)
    attempts: dict[int, Attempt] = field(default_factory=dict)
    incident: Json | None = None
    gate: str | None = None
    gate_waits: list[list[float]] = field(default_factory=list)
    diagnosed: Json | None = None
    decided: Json | None = None
    timeline: list[tuple[str, float]] = field(default_factory=list)
    events: list[tuple[float, str, str]] = field(default_factory=list)
    completion: str | None = None

    @property
    def current(self) -> Attempt | None:
        return self.attempts[max(self.attempts)] if self.attempts else None

    @property
    def gate_wait_seconds(self) -> float:
        """How long the gate has been closed before relaunches, all together."""
        return sum((until or self.now_seconds) - begun for begun, until in self.gate_waits)

    @property
    def over(self) -> bool:
        """Nothing more will happen by itself."""
        return self.completion is not None or self.state in ENDED_STATES


def see_event(state: DemoState, event: Json) -> None:
    """Fold one event in; ones of other instances and unknown kinds only add a line."""
    kind, data = str(event.get("event", "")), part(event, "data")
    state.events.append((state.now_seconds, kind, str(event.get("text", ""))))
    attempt = _attempt(state, data.get("attempt"))
    if kind == "attempt-launched" and attempt is not None:
        attempt.settings = part(data, "settings")
        close_gate_wait(state)
    elif kind == "phase-entered" and attempt is not None:
        _enter(attempt, str(data.get("phase")))
    elif kind == "engine-ready" and attempt is not None:
        attempt.ready_seconds = state.now_seconds
        _enter(attempt, "serving")
    elif kind == "engine-exited" and state.current is not None:
        state.current.ended_seconds = state.now_seconds
    elif kind == "failure-diagnosed":
        state.diagnosed = data | {"text": event.get("text")}
    elif kind == "decision-made":
        state.decided = data | {"text": event.get("text")}
    elif kind == "gate-waiting":
        state.gate = str(event.get("text"))
        if not state.gate_waits or state.gate_waits[-1][1]:
            state.gate_waits.append([state.now_seconds, 0])
    elif kind == "gate-opened":
        close_gate_wait(state)


def see_status(state: DemoState, status: Json) -> None:
    """GPUs, and the instance's own entry."""
    state.gpus = listed(status, "gpus")
    for instance in listed(status, "instances"):
        if instance.get("name") == state.instance:
            _see_instance(state, instance)


def see_incidents(state: DemoState, incidents: list[Json]) -> None:
    """The incident of the first attempt is the one that the demo is about."""
    for incident in incidents:
        if incident.get("attempt") == 1:
            state.incident = incident


def see_memory(state: DemoState, memory: Json) -> None:
    """The memory timeline of the newest attempt, as the largest use of any GPU."""
    samples = listed(memory, "samples")
    state.timeline = [
        (str(sample.get("phase")), max(map(as_number, part(sample, "used_bytes").values())))
        for sample in samples
        if part(sample, "used_bytes")
    ]


def close_gate_wait(state: DemoState) -> None:
    state.gate = None
    if state.gate_waits and not state.gate_waits[-1][1]:
        state.gate_waits[-1][1] = state.now_seconds


def _see_instance(state: DemoState, instance: Json) -> None:
    state.state = str(instance.get("state", ""))
    state.reason = str(instance.get("reason") or "")
    gpus = instance.get("gpus")
    if isinstance(gpus, list):
        state.used_by_instance = tuple(int(gpu) for gpu in gpus)
    state.processes = part(part(instance, "pids"), "engine")
    gate = part(instance, "gate")
    if gate and state.state == "waiting":
        state.gate = str(gate.get("text"))
    elif not gate:
        state.gate = None
    if state.state in {"starting", "ready"}:
        attempt = _attempt(state, instance.get("attempt"))
        if attempt is not None:
            _enter(attempt, str(instance.get("phase")))


def _attempt(state: DemoState, number: object) -> Attempt | None:
    if not isinstance(number, int) or number < 1:
        return None
    if number not in state.attempts:
        state.attempts[number] = Attempt(number, state.now_seconds)
    return state.attempts[number]


def _enter(attempt: Attempt, phase: str) -> None:
    """Documents of several sources may come late: a phase is never left backwards."""
    if ORDER.get(phase, -1) > ORDER[attempt.phase]:
        attempt.phase = phase


def listed(document: Json, member: str) -> list[Json]:
    found = document.get(member)
    return cast("list[Json]", found) if isinstance(found, list) else []


def part(document: Json, member: str) -> Json:
    found = document.get(member)
    return cast("Json", found) if isinstance(found, dict) else {}


def as_number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
