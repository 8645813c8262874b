"""The states of an instance, and the value that carries one from event to event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.decide.envelope import Envelope
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.observation import Observation
from vllm_warden.core.decide.slack import Slack
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import LostProcess
from vllm_warden.core.lifecycle.found import FoundEngine
from vllm_warden.core.lifecycle.probe import Probe
from vllm_warden.core.lifecycle.trial import Trial
from vllm_warden.core.model import Phase, ProcessIdentity, Settings, SettingValue
from vllm_warden.core.plan.returning import Returning
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec, ModelFacts


class State(StrEnum):
    STOPPED = "stopped"
    """Not wanted, nothing runs."""
    WAITING = "waiting"
    """Wanted; the gate is not open yet."""
    STARTING = "starting"
    """Launched, not ready yet."""
    READY = "ready"
    """Answers requests."""
    UNREADY = "unready"
    """Was ready; does not answer at present."""
    STOPPING = "stopping"
    """Being ended on request; relaunched afterwards if still wanted."""
    DIAGNOSING = "diagnosing"
    """Died by itself; the evidence is being gathered."""
    BACKOFF = "backoff"
    """Will be started again after a delay."""
    HELD = "held"
    """Waits for the operator, and says why."""
    FAILED = "failed"
    """Cannot work as configured, and says why."""


RUNNING = frozenset({State.STARTING, State.READY, State.UNREADY})
"""States in which an engine is meant to be alive."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One launch. ``changes`` are the settings in force that differ from the asked ones.

    ``ready_since_seconds`` is None until the first token came back. ``free_at_launch_bytes`` is
    the least that was free on one of its GPUs, ``total_at_launch_bytes`` what CUDA calls the total
    of that one; None where that is not known. ``forgotten`` True
    means that what it shows is not learned. ``slack`` is what was left beside the budget at ready.
    ``beside`` True: its budget was fitted beside a neighbour that did not leave. Of the requests
    that it has answered ``probe_requests`` may be the load probe's.
    """

    number: int
    settings: Settings
    changes: Mapping[str, SettingValue]
    launched_seconds: float
    launch_id: str = ""
    identity: ProcessIdentity | None = None
    phase: Phase = Phase.ARGS
    ready_since_seconds: float | None = None
    exit_status: int | None = None
    lost: tuple[LostProcess, ...] = ()
    stalled_seconds: float | None = None
    soaked: bool = False
    free_at_launch_bytes: int | None = None
    trial: Trial | None = None
    forgotten: bool = False
    total_at_launch_bytes: int | None = None
    slack: Slack | None = None
    beside: bool = False
    probe: Probe = Probe.DUE
    probe_requests: int = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """Everything the core knows of one instance.

    ``wanted`` and ``state`` are two things: what was asked for, and what is. ``timer`` is the
    number of the one live timer or gate look; anything that arrives with another number is stale.
    ``host_gpus`` is how many GPUs the host has, 0 where nobody has counted them.
    ``changes`` are the settings that the next launch overlays on the asked ones; ``trial``, where
    a person asked for one, goes before them once. ``found`` is waiting to be taken over.
    ``caches_suspect`` True: the next launch puts what was compiled before aside.
    ``requests_left`` is how many requests a stop still waits for, None where that is not known.
    """

    spec: InstanceSpec
    state: State = State.STOPPED
    since_seconds: float = 0.0
    reason: str = "never started"
    wanted: bool = False
    wanted_by: str = ""
    held_by: str | None = None
    timer: int | None = None
    timers_made: int = 0
    stop_step: int = 0
    requests_left: int | None = None
    attempt: Attempt | None = None
    attempts_made: int = 0
    changes: Mapping[str, SettingValue] = field(default_factory=dict)
    trial: Trial | None = None
    found: FoundEngine | None = None
    engine: EngineFacts = field(default_factory=EngineFacts)
    model: ModelFacts = field(default_factory=ModelFacts)
    defaults: Settings = field(default_factory=dict)
    gpu_indices: tuple[int, ...] = ()
    host_gpus: int = 0
    envelope: Envelope = field(default_factory=lambda: Envelope(""))
    envelopes: tuple[Envelope, ...] = ()
    ledger: tuple[LedgerEntry, ...] = ()
    observations: tuple[Observation, ...] = ()
    diagnosis: Diagnosis | None = None
    decision: Decision | None = None
    incident_open: bool = False
    gate_text: str | None = None
    gate_since_seconds: float | None = None
    gate_told: bool = False
    returning: Returning | None = None
    lesson_unused: str | None = None
    caches_suspect: bool = False
    next_try_seconds: float | None = None

    @property
    def asked(self) -> Settings:
        """The engine settings as configured, with the one default that vLLM never logs."""
        sequences = self.defaults.get("max_num_seqs")
        if sequences is None or "max_num_seqs" in self.spec.engine:
            return self.spec.engine
        return {**self.spec.engine, "max_num_seqs": sequences}

    @property
    def degraded(self) -> bool:
        """Runs, or would run, with other settings than asked."""
        return bool(self.changes)
