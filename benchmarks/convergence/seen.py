"""What the daemon gets to see of a scenario: public facts, NVML readings, the log's records."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.convergence.boot import Outcome
from benchmarks.convergence.scenario import Scenario, Settings
from benchmarks.convergence.world import NEIGHBOUR_PID, REMAINS_PID, World
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.diagnose.phases import PhaseTracker
from vllm_warden.core.diagnose.redact import redact
from vllm_warden.core.model import GpuHolder, GpuReading, MemorySample, Phase
from vllm_warden.core.plan.spec import ModelFacts

IDLE_BYTES = 4 << 20
"""What the driver itself holds of an empty GPU."""


def model_facts(scenario: Scenario) -> ModelFacts:
    """What config.json and the sizes of the shards say."""
    truth = scenario.truth
    return ModelFacts(
        config_hash=truth.model,
        weight_bytes=truth.weights * truth.ranks,
        vocab_size=truth.vocab,
        max_position=max(131_072, int(scenario.operator.asked["max_model_len"])),
        layers=truth.layers,
        kv_heads=truth.kv_heads,
        head_dim=truth.head_dim,
        architecture=truth.architecture,
    )


def readings_of(scenario: Scenario, world: World) -> tuple[GpuReading, ...]:
    """One reading of each GPU; what others hold, they hold on the first."""
    return tuple(_reading(scenario, world, index) for index in range(scenario.truth.ranks))


def _reading(scenario: Scenario, world: World, index: int) -> GpuReading:
    truth = scenario.truth
    others = world.others if index == 0 else 0
    return GpuReading(
        index=index,
        uuid=f"GPU-{index:08d}",
        name=truth.gpu_name,
        total_bytes=truth.total,
        free_bytes=max(0, truth.total - others - IDLE_BYTES),
        holders=_holders(world, others),
    )


def _holders(world: World, others: int) -> tuple[GpuHolder, ...]:
    if not others or world.kind == "ownerless":
        return ()
    if world.kind == "remains":
        return (GpuHolder(REMAINS_PID, others, "vllm", "VLLM::Worker_TP0", ours=False),)
    return (GpuHolder(NEIGHBOUR_PID, others, "research", "python train.py"),)


def phases_of(lines: Sequence[str]) -> list[Phase]:
    """The phases that the daemon would have announced while the log grew."""
    tracker = PhaseTracker()
    found = (tracker.feed(line) for line in lines)
    return [phase for phase in found if phase is not None]


def evidence_of(
    scenario: Scenario, outcome: Outcome, lines: Sequence[str], settings: Settings
) -> Evidence:
    """As the daemon gathers it: redacted records, exit status, readiness, memory samples."""
    phases = phases_of(lines)
    truth = scenario.truth
    samples = []
    if phases:
        held = {
            index: (outcome.others.later if index == 0 else 0)
            + (outcome.torch.process if outcome.torch else truth.context + truth.nccl)
            for index in range(truth.ranks)
        }
        samples.append(MemorySample(outcome.ended_at, phases[-1], held))
    return Evidence(
        records=tuple(
            LogRecord(number, redact(line)) for number, line in enumerate(lines, start=1)
        ),
        exit_status=0 if outcome.ready_at is not None else 1,
        was_ready=outcome.ready_at is not None,
        reached=phases[-1] if phases else Phase.ARGS,
        settings=dict(settings),
        engine_version=truth.era.version,
        memory=tuple(samples),
        memory_total_bytes=dict.fromkeys(range(truth.ranks), truth.total),
    )
