"""The documents of the API, in one place: what the daemon produces and the command line reads.

Times named ``at``, ``since``, ``opened``, ``resolved``, ``launched`` and ``ended`` are wall clock
seconds since the epoch (display only). Keys of GPU and pid maps are decimal strings.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

SCHEMA = 1
"""Raised when a member changes its meaning or goes away; new members do not raise it."""


class DaemonDocument(TypedDict):
    version: str
    pid: int
    since: float
    state_directory: str
    log_backend: str
    config: str | None
    config_digest: str | None
    conditions: list[str]


class HolderDocument(TypedDict):
    pid: int
    used_bytes: int | None
    user: str
    command: str
    ours: bool


class GpuDocument(TypedDict):
    index: int
    uuid: str
    name: str
    total_bytes: int
    free_bytes: int
    error: str | None
    instances: list[str]
    holders: list[HolderDocument]


class SettingDocument(TypedDict):
    name: str
    asked: object
    in_force: object
    why: str


class PidsDocument(TypedDict):
    parent: int | None
    engine: dict[str, str]


class MemoryUseDocument(TypedDict):
    used_bytes: dict[str, int]


class LastIncidentDocument(TypedDict):
    number: int
    failure: str
    phase: str | None
    site: str | None
    at: float
    summary: str


class GateDocument(TypedDict):
    text: str
    since: float | None


ChangeDocument = TypedDict("ChangeDocument", {"setting": str, "from": object, "to": object})


class UselessDocument(TypedDict):
    setting: str
    why: str


class DecisionDocument(TypedDict):
    remedy: str
    changes: list[ChangeDocument]
    useless: list[UselessDocument]
    price: dict[str, object] | None
    reason: str
    arithmetic: list[str]
    options: NotRequired[list[str]]
    delay_seconds: NotRequired[float]


class ForeseenDocument(TypedDict):
    """A death at the first full batch that is to be expected although the start was healthy."""

    text: str
    slack_bytes: int
    changes: list[ChangeDocument]
    arithmetic: list[str]


class TrialDocument(TypedDict):
    """The running attempt (or the next one) has settings that somebody asked to try once."""

    kind: str
    by: str


class InstanceDocument(TypedDict):
    name: str
    state: str
    wanted: str
    phase: str | None
    attempt: int
    since: float | None
    reason: str | None
    degraded: bool
    mode: str
    model: str
    port: int
    requests_left: int | None
    settings: list[SettingDocument]
    gpus: list[int]
    pids: PidsDocument
    memory: MemoryUseDocument
    last_incident: LastIncidentDocument | None
    gate: GateDocument | None
    decision: DecisionDocument | None
    next_try: float | None
    foreseen: ForeseenDocument | None
    trial: TrialDocument | None
    retry_promising: list[str]
    restart_pending: bool


class StatusDocument(TypedDict):
    schema: int
    daemon: DaemonDocument
    gpus: list[GpuDocument]
    gpus_problem: str | None
    instances: list[InstanceDocument]


class ProofDocument(TypedDict):
    line: int
    text: str


class DiagnosisDocument(TypedDict):
    failure: str
    phase: str | None
    site: str | None
    signature: str | None
    confidence: str
    ranks: list[int]
    gpus: list[int]
    figures: dict[str, object]
    evidence: list[ProofDocument]
    consequences: list[ProofDocument]
    engine_version: str | None
    summary: NotRequired[str]


class FailureDocument(TypedDict):
    """A later failure of an incident: one before anything had outlived the soak."""

    attempt: int
    at: float
    exit_status: int | None
    diagnosis: DiagnosisDocument
    decision: DecisionDocument | None
    settings_before: dict[str, object]
    settings_after: dict[str, object] | None
    incomplete: bool
    excerpt: list[ProofDocument]


class IncidentDocument(TypedDict):
    """A failure and those that ``further`` lists (the newest 20 of ``failures`` - 1).

    ``recovered`` is when the instance was ready after the newest one; ``resolved`` when that had
    lasted for the soak, or it was stopped. ``part_of``: up to history schema 1 each failure was
    an incident of its own, and this is the number of the first one.
    """

    number: int
    instance: str
    opened: float
    recovered: float | None
    resolved: float | None
    failures: int
    attempt: int
    exit_status: int | None
    diagnosis: DiagnosisDocument
    decision: DecisionDocument | None
    settings_before: dict[str, object]
    settings_after: dict[str, object] | None
    incomplete: bool
    part_of: NotRequired[int]
    excerpt: NotRequired[list[ProofDocument]]
    further: list[FailureDocument]
    resolution: str | None


class AttemptDocument(TypedDict):
    number: int
    launched: float | None
    ended: float | None
    phase: str | None
    outcome: str | None
    settings: dict[str, object]
    changes: list[ChangeDocument]
    command: str
    figures: NotRequired[dict[str, object]]
    engine_version: NotRequired[str | None]


class MeasuredDocument(TypedDict):
    """What an engine printed of its memory: the newest attempt's that got so far.

    ``moment`` is "ready" or "death". ``figures`` are bytes of one rank where their names say so;
    ``total_bytes`` among them is the size of its GPU as CUDA sees it.
    """

    attempt: int
    moment: str
    settings: dict[str, object]
    figures: dict[str, object]
    engine_version: str | None


class InstanceDetailDocument(InstanceDocument):
    attempts: list[AttemptDocument]
    launch_command: str
    explanation: list[str]
    incident: IncidentDocument | None
    measured: MeasuredDocument | None


class EventDocument(TypedDict):
    """One event; ``event`` is its kind (``attempt_launched``), ``text`` a sentence."""

    number: int
    at: float
    instance: str | None
    event: str
    text: str
    data: NotRequired[dict[str, object]]


class LogLineDocument(TypedDict):
    attempt: int
    line: int
    text: str


class InstancesDocument(TypedDict):
    instances: list[InstanceDocument]


class IncidentsDocument(TypedDict):
    incidents: list[IncidentDocument]


class EventsDocument(TypedDict):
    events: list[EventDocument]


class LogLinesDocument(TypedDict):
    """``left_out`` of the lines asked for are not kept, or too much for one answer (8 MiB)."""

    lines: list[LogLineDocument]
    left_out: int


class MemorySampleDocument(TypedDict):
    """``at`` is wall time, ``at_seconds`` counts since boot."""

    at: float
    at_seconds: float
    phase: str
    used_bytes: dict[str, int]


class MemoryDocument(TypedDict):
    instance: str
    attempt: int
    total_bytes: dict[str, int]
    samples: list[MemorySampleDocument]


class AcceptedDocument(TypedDict):
    event: int


class ProblemDocument(TypedDict):
    type: str
    title: str
    status: int
    detail: str
    hint: str
