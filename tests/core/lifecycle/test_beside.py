"""Neighbours are waited for; whoever stays is fitted around before the first launch, if allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vllm_warden.core.lifecycle import effects as fx
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.machine import step
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import GIB, GpuHolder, GpuReading, Mode
from vllm_warden.core.plan.gate import FOREIGN_HOLD_SECONDS, GateReport
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, EngineFacts, InstanceSpec, ModelFacts

UTILIZATION = "gpu_memory_utilization"
SPEC = InstanceSpec(
    "tiny",
    "/m",
    (0,),
    engine={UTILIZATION: 0.9},
    adapt=AdaptSpec(knobs={UTILIZATION: Bounds(min=0.4)}, share_with_neighbours=True),
)


def report(taken_gib: float, weights_gib: float = 20) -> GateReport:
    holder = GpuHolder(31337, int(taken_gib * GIB), "research", "python train.py")
    free = int((80 - taken_gib) * GIB)
    gpu = GpuReading(0, "GPU-0", "NVIDIA H100", 80 * GIB, free, (holder,))
    model = ModelFacts(weight_bytes=int(weights_gib * GIB), vocab_size=128_256)
    return GateReport(gpus=(gpu,), engine=EngineFacts(version="0.15.1"), model=model)


def after_waiting(spec: InstanceSpec, seen: GateReport) -> tuple[Instance, tuple[fx.Effect, ...]]:
    instance, _ = step(Instance(spec), ev.StartRequested(0.0, "operator"))
    effects: tuple[fx.Effect, ...] = ()
    for at in (1.0, FOREIGN_HOLD_SECONDS + 2):
        assert instance.timer is not None
        instance, effects = step(instance, ev.GateReported(at, instance.timer, seen))
        if instance.state is State.WAITING:
            assert instance.timer is not None
            instance, _ = step(instance, ev.TimerElapsed(at, instance.timer))
    return instance, effects


def test_beside_one_that_stays_the_budget_is_what_the_identity_leaves() -> None:
    instance, effects = after_waiting(SPEC, report(16))

    # (64 GiB free - 520 MiB context - 1.5 graphs - 0.7 margin - 0.4 as H is computed) / 80 GiB
    (launch,) = [one for one in effects if isinstance(one, fx.Launch)]
    assert launch.settings[UTILIZATION] == pytest.approx(0.7611, abs=1e-4)
    assert instance.state is State.STARTING
    (told,) = [one for one in effects if isinstance(one, fx.Announce)][:1]
    assert "31337" in told.text


@pytest.mark.parametrize(
    "adapt",
    [
        AdaptSpec(knobs={UTILIZATION: Bounds(min=0.4)}),
        replace(SPEC.adapt, mode=Mode.RESTART),
        replace(SPEC.adapt, mode=Mode.OBSERVE),
    ],
)
def test_where_sharing_is_not_allowed_it_is_held_at_the_asked_budget(adapt: AdaptSpec) -> None:
    instance, _ = after_waiting(replace(SPEC, adapt=adapt), report(16))

    assert instance.state is State.HELD
    assert instance.changes == {}


def test_what_does_not_fit_beside_the_neighbour_is_held_with_the_arithmetic() -> None:
    instance, _ = after_waiting(SPEC, report(16, weights_gib=62.5))

    assert instance.state is State.HELD
    assert "weights and one request alone need" in instance.reason


def test_a_bound_that_forbids_it_is_named() -> None:
    adapt = replace(SPEC.adapt, knobs={UTILIZATION: Bounds(min=0.85)})
    instance, _ = after_waiting(replace(SPEC, adapt=adapt), report(16))

    assert instance.state is State.HELD
    assert "no less than 0.85" in instance.reason
