"""A start that will die at the first full batch is announced before any request has come."""

from __future__ import annotations

import pytest

from vllm_warden.core.lifecycle import effects as fx
from vllm_warden.core.lifecycle import events as ev
from vllm_warden.core.lifecycle.machine import step
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import GIB, Figures, GpuHolder, GpuReading, Mode, ProcessIdentity
from vllm_warden.core.plan.gate import GateReport
from vllm_warden.core.plan.spec import AdaptSpec, Bounds, EngineFacts, InstanceSpec, ModelFacts

UTILIZATION = "gpu_memory_utilization"
TOTAL = 80 * GIB
FREE = int(79.5 * GIB)
FIGURES: Figures = {
    "weights_bytes": 40 * GIB,
    "available_kv_bytes": 34 * GIB,
    "graphs_bytes": 3 * GIB,
}


def ready(
    adapt: AdaptSpec | None = None,
    utilization: float = 0.97,
    figures: Figures = FIGURES,
    gpus: tuple[int, ...] = (0,),
    driver: int = 0,
) -> tuple[Instance, list[fx.Announce]]:
    """One GPU of 80 GiB with 79.5 GiB free at launch; the rest is a display's, or the driver's."""
    spec = InstanceSpec(
        "tiny", "/m", gpus, engine={UTILIZATION: utilization}, adapt=adapt or AdaptSpec()
    )
    display = GpuHolder(7, (TOTAL - FREE) - driver)
    gpu = GpuReading(0, "GPU-0", "NVIDIA H100", TOTAL, FREE, (display,))
    seen = GateReport(gpus=(gpu,), engine=EngineFacts("0.15.1"), model=ModelFacts())
    instance, _ = step(Instance(spec), ev.StartRequested(0.0, "test"))
    assert instance.timer is not None
    instance, _ = step(instance, ev.GateReported(1.0, instance.timer, seen))
    instance, _ = step(instance, ev.Launched(2.0, 1, "id", ProcessIdentity(1, 1, "b")))
    instance, effects = step(instance, ev.BecameReady(3.0, 1, figures))
    assert instance.state is State.READY
    told = [one for one in effects if isinstance(one, fx.Announce)]
    return instance, [one for one in told if one.event == "death-foreseen"]


def test_a_start_without_room_for_a_full_batch_is_announced_with_the_next_plan() -> None:
    instance, (told,) = ready()

    # 79.5 - 0.5078 context - 77.6 budget - 3 graphs = -1.6078 GiB; peak 77.6 - 74 = 3.6 GiB;
    # plan: (79.5 - 0.5078 - 3 - (0.3 + 0.04 * 3.6) - 0.4) / 80 = 0.9393
    assert instance.attempt is not None
    assert instance.attempt.slack is not None
    assert instance.attempt.slack.slack_bytes == pytest.approx(-1.6078 * GIB, rel=1e-3)
    assert told.data["changes"] == [{"setting": UTILIZATION, "from": 0.97, "to": 0.9393}]
    assert "will die" in told.text
    assert "1.61 GiB are missing" in told.text
    assert "0.97 -> 0.9393" in told.text


def test_what_the_driver_keeps_is_in_no_budget() -> None:
    instance, _ = ready(driver=GIB // 2)

    # 79.5 - 0.5078 - 0.97 x 79.5 - 3
    assert instance.attempt is not None
    assert instance.attempt.slack is not None
    assert instance.attempt.slack.slack_bytes == pytest.approx(-1.1228 * GIB, rel=1e-3)


def test_a_little_room_is_told_as_a_doubt() -> None:
    _, (told,) = ready(utilization=0.948)

    assert "may die" in told.text


@pytest.mark.parametrize(
    ("utilization", "figures"),
    [(0.94, FIGURES), (0.97, {**FIGURES, "graphs_estimated_bytes": 3 * GIB}), (0.97, {})],
)
def test_with_room_with_budgeted_graphs_or_without_figures_nobody_is_warned(
    utilization: float, figures: Figures
) -> None:
    assert ready(utilization=utilization, figures=figures)[1] == []


def test_a_cpu_engine_has_no_such_slack() -> None:
    instance, told = ready(gpus=())

    assert told == []
    assert instance.attempt is not None
    assert instance.attempt.slack is None


@pytest.mark.parametrize(
    ("adapt", "words"),
    [
        (AdaptSpec(mode=Mode.RESTART), 'mode is "restart"'),
        (AdaptSpec(knobs={UTILIZATION: Bounds(min=0.95)}), "the bounds forbid it"),
        (AdaptSpec(knobs={UTILIZATION: Bounds(allowed=False)}), "may not be changed"),
    ],
)
def test_a_plan_that_is_not_allowed_says_what_stands_in_its_way(
    adapt: AdaptSpec, words: str
) -> None:
    _, (told,) = ready(adapt)

    assert words in told.text
    assert told.data["changes"] == []


def test_it_is_announced_once_not_after_every_hiccup() -> None:
    instance, _ = ready()
    instance, _ = step(instance, ev.BecameUnready(4.0, 1, "/health answers 503"))
    instance, effects = step(instance, ev.BecameReady(5.0, 1))

    assert [one.event for one in effects if isinstance(one, fx.Announce)] == ["engine-ready"]
    assert instance.attempt is not None
    assert instance.attempt.slack is not None
    assert instance.attempt.slack.is_short
