"""The kernel's messages count with a death, and only where they are about the attempt itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.diagnose.sample_files import records
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord, LostProcess
from vllm_warden.core.diagnose.kernel_lines import oom_victim, tells_of_an_end
from vllm_warden.core.model import Failure, Phase

OURS, THEIRS = 41234, 999
KILLED = "Memory cgroup out of memory: Killed process {} (VLLM::EngineCor) total-vm:9kB, UID:0"
CHOSEN = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/a,task={},pid={},uid=0"
FAULT = "NVRM: Xid (PCI:0000:3b:00): 31, pid={}, name=python, Ch 00000008"
LOST = "NVRM: Xid (PCI:{}): 79, GPU has fallen off the bus."
OUT_OF_MEMORY = (
    "(EngineCore_DP0 pid=41234) ERROR 11-29 16:20:01 [core.py:857] torch.OutOfMemoryError: CUDA "
    "out of memory. Tried to allocate 2.44 GiB. GPU 0 has a total capacity of 79.10 GiB of which "
    "1.97 GiB is free."
)
DIED = Evidence(
    records=records("(APIServer pid=10) INFO:     Application startup complete."),
    exit_status=1,
    reached=Phase.SERVING,
    was_ready=True,
    pids=frozenset({10, OURS}),
    gpu_addresses=frozenset({"00000000:3B:00.0"}),
)


def found(evidence: Evidence, *lines: str) -> Diagnosis:
    return diagnose(replace(evidence, kernel_lines=lines))


@pytest.mark.parametrize("line", [KILLED.format(OURS), CHOSEN.format("python", OURS)])
def test_the_oom_killer_is_believed_about_our_process_over_all_text(line: str) -> None:
    told = replace(DIED, records=(*DIED.records, LogRecord(2, OUT_OF_MEMORY)))
    assert found(told).failure is Failure.GPU_OUT_OF_MEMORY
    assert found(told, line).failure is Failure.HOST_OUT_OF_MEMORY
    assert found(told, line).signature == "host-oom-kernel-log"


@pytest.mark.parametrize(
    "line",
    [
        KILLED.format(THEIRS),
        CHOSEN.format("python", THEIRS),
        CHOSEN.format(f"x,pid={OURS},uid=0,", THEIRS),
        f"process {OURS} said: " + KILLED.format(THEIRS),
        KILLED.format(THEIRS) + f" {OURS} pid={OURS},",
        "audit: " + KILLED.format(OURS),
    ],
)
def test_the_oom_killer_of_another_process_is_not_ours(line: str) -> None:
    assert found(DIED, line).failure is not Failure.HOST_OUT_OF_MEMORY


def test_a_counted_kill_outranks_text_and_a_driver_that_lost_the_gpu_too() -> None:
    told = replace(DIED, records=(*DIED.records, LogRecord(2, OUT_OF_MEMORY)))
    assert found(replace(told, oom_kills=1)).failure is Failure.HOST_OUT_OF_MEMORY
    assert found(told, LOST.format("0000:3b:00")).failure is Failure.GPU_FAULT


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        (FAULT.format(OURS), True),
        (FAULT.format(THEIRS), False),
        (FAULT.format("'<unknown>'"), True),
        (FAULT.format("'<unknown>'").replace("3b", "af"), False),
        (LOST.format("0000:3B:00"), True),
        (LOST.format("00000000:3b:00.0"), True),
        (LOST.format("0000:af:00"), False),
        (LOST.format("0000:3b:00").replace("79,", f"79, pid={THEIRS}, name=x,"), True),
        (LOST.format("0001:3b:00"), False),
    ],
)
def test_the_drivers_messages_count_for_our_processes_and_gpus(line: str, counts: bool) -> None:
    assert (found(DIED, line).failure is Failure.GPU_FAULT) is counts


def test_an_engine_without_gpus_dies_of_no_gpu() -> None:
    on_cpu = replace(DIED, gpu_addresses=frozenset())
    assert found(on_cpu, LOST.format("0000:3b:00")).failure is not Failure.GPU_FAULT


def test_where_nvml_told_no_address_a_message_about_our_process_names_our_gpu() -> None:
    unknown = replace(DIED, gpu_addresses=None)
    lost = LOST.format("0000:3b:00")
    assert found(unknown, FAULT.format(OURS), lost).signature == "xid-device-lost"
    other = lost.replace("3b", "af")
    assert found(unknown, FAULT.format(OURS), other).signature == "xid-process-lost"


def test_no_kernel_line_makes_a_death() -> None:
    alive = Evidence(DIED.records, pids=DIED.pids, gpu_addresses=DIED.gpu_addresses)
    assert found(alive, LOST.format("0000:3b:00"), FAULT.format(OURS)).failure is Failure.NONE


def test_a_kill_of_our_own_leaves_45_and_memory_errors_which_explain_nothing() -> None:
    ours = replace(
        DIED,
        exit_status=-9,
        note="no progress for 600 s",
        lost_processes=(LostProcess(OURS, "VLLM::Worker_TP0", 0),),
    )
    left_behind = (
        FAULT.format(OURS).replace("31,", "45,"),
        "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)",
    )
    assert found(ours, *left_behind) == found(ours)


def test_only_lines_that_may_explain_an_end_are_worth_keeping() -> None:
    assert tells_of_an_end(KILLED.format(1))
    assert tells_of_an_end(LOST.format("0000:3b:00"))
    assert not tells_of_an_end("usb 1-1: new device")
    assert oom_victim(KILLED.format(77)) == 77
    assert oom_victim("python invoked oom-killer: gfp_mask=0xcc0, order=0") is None
