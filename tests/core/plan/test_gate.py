"""The gate opens only when everything is proven free, and always says who stands in it."""

from __future__ import annotations

from dataclasses import replace

from tests.core.plan.memory_model.models_read import model_of
from vllm_warden.core.model import GIB, GpuHolder, GpuReading, RemainingProcess
from vllm_warden.core.plan.gate import Gate, GateReport, WorldFault, judge_gate
from vllm_warden.core.plan.returning import Returning, follow
from vllm_warden.core.plan.spec import InstanceSpec, ModelFacts

FREE = GpuReading(0, "GPU-0", "H100", 80 * GIB, 79 * GIB)
HELD = replace(
    FREE,
    index=1,
    uuid="GPU-1",
    free_bytes=20 * GIB,
    holders=(GpuHolder(4711, 59 * GIB, "alice", "python train.py"),),
)
SPEC = InstanceSpec("big", "/m", (0, 1))


def judge(report: GateReport, waited: float = 0.0, spec: InstanceSpec = SPEC) -> tuple[Gate, str]:
    verdict = judge_gate(spec, report, 0.9, waited)
    return verdict.gate, verdict.text


def test_it_opens_when_every_gpu_has_its_share_free() -> None:
    other = replace(FREE, index=1, uuid="GPU-1")

    verdict = judge_gate(SPEC, GateReport(gpus=(FREE, other)), 0.9, 0.0)

    assert verdict.gate is Gate.OPEN
    assert verdict.gpu_indices == (0, 1)


def test_what_the_driver_reserves_is_no_part_of_what_vllm_takes_its_share_of() -> None:
    gpu = replace(FREE, free_bytes=79 * GIB, reserved_bytes=GIB)
    report = GateReport(gpus=(gpu,))
    spec = replace(SPEC, gpus=(0,))

    assert judge_gate(spec, report, 0.99, 0.0).gate is Gate.OPEN
    unknown = replace(report, gpus=(replace(gpu, reserved_bytes=0),))
    assert judge_gate(spec, unknown, 0.99, 0.0).gate is Gate.WAIT


def test_one_held_gpu_of_many_keeps_it_closed_and_names_pid_user_and_command() -> None:
    gate, text = judge(GateReport(gpus=(FREE, HELD)))

    assert gate is Gate.WAIT
    for part in ("GPU 1", "20.00 GiB free", "72.00 GiB are needed", "4711", "alice", "train.py"):
        assert part in text


def test_a_foreign_holder_is_waited_for_half_an_hour_then_held_never_killed() -> None:
    report = GateReport(gpus=(FREE, HELD))

    assert judge(report, 1700)[0] is Gate.WAIT
    assert judge(report, 1900)[0] is Gate.HOLD
    assert not judge_gate(SPEC, report, 0.9, 1900).kill_remains


def test_weights_that_need_more_than_the_budget_decide() -> None:
    small = replace(FREE, free_bytes=30 * GIB)
    other = replace(small, index=1, uuid="GPU-1")
    report = GateReport(gpus=(small, other), model=ModelFacts(weight_bytes=60 * GIB))

    assert judge_gate(SPEC, report, 0.1, 0.0).gate is Gate.WAIT
    assert judge_gate(SPEC, replace(report, model=ModelFacts()), 0.1, 0.0).gate is Gate.OPEN


def test_weights_larger_than_the_gpus_fail_at_once_with_the_arithmetic() -> None:
    pair = (FREE, replace(FREE, index=1, uuid="GPU-1"))
    report = GateReport(gpus=pair, model=ModelFacts(weight_bytes=200 * GIB))
    gate, text = judge(report)

    assert gate is Gate.FAIL
    for part in ("200.00 GiB over 2 GPUs", "100.00 GiB on each", "80.00 GiB in all"):
        assert part in text


def test_weights_that_are_quantised_or_offloaded_at_load_are_not_judged_by_their_files() -> None:
    pair = (FREE, replace(FREE, index=1, uuid="GPU-1"))
    report = GateReport(gpus=pair, model=ModelFacts(weight_bytes=200 * GIB))

    for option in ("quantization", "cpu_offload_gb"):
        assert judge(report, spec=replace(SPEC, engine={option: "x"}))[0] is Gate.OPEN
    for words in (("--cpu-offload-gb", "50"), ("--cpu-offload-gb=50",)):
        assert judge(report, spec=replace(SPEC, extra_args=words))[0] is Gate.OPEN


def test_weights_larger_than_the_gpus_name_the_layouts_that_would_do() -> None:
    gpus = tuple(replace(FREE, index=index, uuid=f"GPU-{index}") for index in range(8))
    model = model_of("minimax-m2.5")
    facts = ModelFacts(weight_bytes=model.checkpoint.total_bytes, for_memory=model)
    asked = {"tensor_parallel_size": 2, "enable_expert_parallel": True}
    spec = replace(SPEC, engine={**asked, "max_model_len": 32_768})
    gate, text = judge(GateReport(gpus=gpus, model=facts), spec=spec)

    assert gate is Gate.FAIL
    assert "these would: " in text
    assert "TP4: tensor_parallel_size 4 (4 GPUs)" in text
    assert "TP8+EP: tensor_parallel_size 8 with expert parallel (8 GPUs)" in text


def test_a_utilization_that_no_gpu_can_give_fails_instead_of_waiting_for_ever() -> None:
    pair = (FREE, replace(FREE, index=1, uuid="GPU-1"))
    verdict = judge_gate(SPEC, GateReport(gpus=pair), 1.5, 0.0)

    assert verdict.gate is Gate.FAIL
    assert "gpu_memory_utilization 1.5" in verdict.text


def test_missing_memory_without_a_holder_is_held_too_in_the_end() -> None:
    nobody = replace(HELD, holders=())

    assert judge(GateReport(gpus=(FREE, nobody)), 1900)[0] is Gate.HOLD


def test_unreadable_gpus_never_count_as_free() -> None:
    lost = replace(FREE, index=1, uuid="GPU-1", error="GPU is lost")

    assert judge(GateReport(gpus_problem="driver not loaded"))[0] is Gate.WAIT
    assert judge(GateReport(gpus=(FREE, lost))) == (
        Gate.WAIT,
        "GPU 1 cannot be read: GPU is lost",
    )


def test_a_gpu_that_does_not_exist_is_named_with_those_that_do() -> None:
    spec = replace(SPEC, gpus=(0, 9))

    assert judge(GateReport(gpus=(FREE,)), spec=spec) == (
        Gate.WAIT,
        "GPU 9 does not exist here (there are: 0)",
    )


def test_uuids_name_gpus_too() -> None:
    verdict = judge_gate(replace(SPEC, gpus=("GPU-0",)), GateReport(gpus=(FREE,)), 0.9, 0.0)

    assert verdict.gpu_indices == (0,)


def test_a_cpu_instance_is_never_gated_by_gpus() -> None:
    spec = replace(SPEC, gpus=())

    assert judge(GateReport(gpus_problem="no NVML"), spec=spec)[0] is Gate.OPEN


def test_a_hopeless_fault_wins_over_one_that_may_pass() -> None:
    faults = (
        WorldFault("model", "not there yet", hopeless=False),
        WorldFault("command", "no vllm", hopeless=True),
    )

    assert judge(GateReport(faults=faults)) == (Gate.FAIL, "command: no vllm")


def test_own_remains_are_ended_and_held_after_a_minute() -> None:
    report = GateReport(own_remains=(RemainingProcess(12, "python3"), RemainingProcess(13)))

    assert judge_gate(SPEC, report, 0.9, 0.0).kill_remains
    assert judge(report, 61) == (
        Gate.HOLD,
        "processes of an earlier attempt cannot be ended: 12 (python3), 13",
    )


def test_remains_that_no_signal_reaches_are_named_with_what_would_free_them() -> None:
    stuck = RemainingProcess(12, "VLLM::Worker", "nv_wait")
    text = judge(GateReport(own_remains=(stuck, *(RemainingProcess(n) for n in range(20)))), 61)[1]

    assert "12 (VLLM::Worker, waits in the kernel nv_wait), 0, 1, 2, 3, 4, 5, 6 and 13 more" in text
    assert "only a reset of its device or a reboot" in text


def test_a_taken_port_and_other_starts_are_waited_for() -> None:
    assert "pid 7" in judge(GateReport(port_holder="pid 7 (nginx)"))[1]
    assert "other" in judge(GateReport(starting=("other",)))[1]


def returning(*frees: float, every: float = 10.0) -> Returning:
    """Looks at GPU 1 with so many GiB free."""
    seen: Returning | None = None
    for number, free in enumerate(frees):
        gpu = replace(HELD, free_bytes=int(free * GIB))
        seen = follow(seen, (FREE, gpu), 100.0 + number * every)
    assert seen is not None
    return seen


def judge_returning(gpu: GpuReading, seen: Returning, waited: float) -> tuple[Gate, str]:
    verdict = judge_gate(SPEC, GateReport(gpus=(FREE, gpu)), 0.9, waited, seen)
    return verdict.gate, verdict.text


def test_memory_that_comes_back_is_waited_for_however_long_and_it_is_said_how_long() -> None:
    gpu = replace(HELD, free_bytes=40 * GIB)
    gate, text = judge_returning(gpu, returning(20, 30, 40), 4000)
    assert gate is Gate.WAIT
    assert "it is coming back, about 32 s to go" in text  # 32 GiB at 1 GiB/s


def test_memory_that_stopped_coming_back_is_held_half_an_hour_later() -> None:
    gpu = replace(HELD, free_bytes=40 * GIB)
    for looks, gate in ((100, Gate.WAIT), (200, Gate.HOLD)):
        found, text = judge_returning(gpu, returning(20, 40, *[40] * looks), 9999)
        assert found is gate
        assert "coming back" not in text


def test_less_than_the_drivers_own_noise_is_no_return() -> None:
    seen = returning(20, 20.01, 20.02, 20.03)
    assert seen.still_seconds == 30.0


def test_memory_of_processes_that_are_gone_is_told_apart_and_held_after_ten_minutes() -> None:
    gone = replace(HELD, holders=(GpuHolder(4711, 59 * GIB, gone=True),))
    gate, text = judge_returning(gone, returning(20, *[20] * 59), 590)
    assert (gate, "pid 4711 (gone, 59.00 GiB)" in text) == (Gate.WAIT, True)
    gate, text = judge_returning(gone, returning(20, *[20] * 61), 610)
    assert gate is Gate.HOLD
    assert "the driver keeps 59.00 GiB for processes that are gone" in text
    assert "reset" in text


def test_memory_that_a_living_process_keeps_secret_is_not_called_ownerless() -> None:
    secret = replace(HELD, holders=(GpuHolder(4711, None, "alice", "python"),))
    assert judge_returning(secret, returning(20, *[20] * 61), 610)[0] is Gate.WAIT


def test_a_lost_gpu_is_held_at_once() -> None:
    lost = replace(FREE, index=1, uuid="GPU-1", free_bytes=0, error="GPU is lost", lost=True)
    gate, text = judge(GateReport(gpus=(FREE, lost)))
    assert gate is Gate.HOLD
    assert "GPU 1 is lost" in text
