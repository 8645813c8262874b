"""The driver's kernel messages: what they mean, what they ask for, and when they prove nothing."""

from __future__ import annotations

import pytest

from tests.core.diagnose.sample_files import records
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence, LostProcess
from vllm_warden.core.diagnose.xid import XIDS, XidAction, read_xid
from vllm_warden.core.model import Confidence, Failure, Phase

LINE = "NVRM: Xid (PCI:0000:3B:00): {}, pid=41234, name=VLLM::Worker_TP0, some words."
CHANGED = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 ({})"
OF_THE_VENDOR = {
    XidAction.NOTHING: {44, 45, 63, 121, 154},
    XidAction.WATCH: {61, 78, 92, 144, 145, 146, 147, 148, 149, 150, 157},
    XidAction.RESTART: {8, 13, 31, 32, 39, 40, 41, 43, 69, 70, 71, 72, 75, 76, 77, 85, 94, 137},
    XidAction.RESET: {
        46,
        48,
        62,
        64,
        74,
        95,
        109,
        110,
        119,
        120,
        136,
        140,
        143,
        156,
        158,
        171,
        172,
    },
    XidAction.REBOOT: {79},
}


def _died(*kernel_lines: str, note: str | None = None) -> Diagnosis:
    return diagnose(
        Evidence(
            records=records("(APIServer pid=10) INFO:     Application startup complete."),
            exit_status=0,
            reached=Phase.SERVING,
            was_ready=True,
            lost_processes=(LostProcess(41234, "VLLM::Worker_TP0", 0),),
            kernel_lines=kernel_lines,
            note=note,
        )
    )


def test_every_number_has_the_vendors_action() -> None:
    found: dict[XidAction, set[int]] = {action: set() for action in XidAction}
    for number, xid in XIDS.items():
        found[xid.action].add(number)
    assert found == OF_THE_VENDOR


@pytest.mark.parametrize(
    ("written", "pid"),
    [
        (", pid=41234, name=python, words", 41234),
        (", pid='41234', name=python, words", 41234),
        (", pid='<unknown>', name=<unknown>, words", None),
        (", words without a process", None),
    ],
)
def test_a_line_is_read_with_or_without_its_process(written: str, pid: int | None) -> None:
    record = read_xid("kernel: NVRM: Xid (PCI:0000:3B:00): 79" + written)
    assert record is not None
    assert (record.number, record.pci, record.pid) == (79, "0000:3b:00", pid)


@pytest.mark.parametrize(
    ("word", "action"),
    [
        ("None", XidAction.NOTHING),
        ("Drain P2P", XidAction.RESET),
        ("Drain and Reset", XidAction.RESET),
        ("GPU Reset Required", XidAction.RESET),
        ("Node Reboot Required", XidAction.REBOOT),
        ("Something New", XidAction.WATCH),
    ],
)
def test_the_recovery_action_is_read_from_the_line(word: str, action: XidAction) -> None:
    record = read_xid(CHANGED.format(word))
    assert record is not None
    assert record.action is action


def test_other_kernel_lines_are_none_and_unknown_numbers_are_to_be_watched() -> None:
    assert read_xid("NVRM: GPU at PCI:0000:3b:00: GPU-8e2a") is None
    record = read_xid(LINE.format(4711))
    assert record is not None
    assert record.action is XidAction.WATCH


def test_a_device_that_is_lost_outranks_the_process_that_vanished() -> None:
    found = _died(LINE.format(79))
    assert (found.failure, found.signature) == (Failure.GPU_FAULT, "xid-device-lost")
    assert found.figures["xid"] == 79
    assert found.figures["pci"] == "0000:3b:00"
    assert found.figures["xid_action"] == "reboot"


def test_the_recovery_line_is_the_one_that_is_shown() -> None:
    found = _died(LINE.format(95), CHANGED.format("Node Reboot Required"))
    assert (found.figures["xid"], found.figures["xid_action"]) == (154, "reboot")


def test_a_fault_of_the_process_explains_a_death_without_words() -> None:
    found = _died(LINE.format(31))
    assert (found.failure, found.signature) == (Failure.GPU_FAULT, "xid-process-lost")
    assert found.confidence is Confidence.LIKELY


@pytest.mark.parametrize("number", [45, 63, 92])
def test_numbers_that_ask_for_nothing_explain_no_death(number: int) -> None:
    assert _died(LINE.format(number)).failure is Failure.KILLED_BY_SIGNAL


def test_what_our_own_kill_leaves_behind_is_nothing() -> None:
    found = _died(LINE.format(45), note="no progress for 600 s")
    assert "xid" not in found.figures
    assert found.failure is not Failure.GPU_FAULT


def test_the_drivers_want_of_memory_alone_proves_nothing() -> None:
    line = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)"
    assert _died(line).failure is Failure.KILLED_BY_SIGNAL
    healthy = records("(APIServer pid=10) INFO:     Application startup complete.", line)
    assert diagnose(Evidence(healthy, kernel_lines=(line,))).failure is Failure.NONE
