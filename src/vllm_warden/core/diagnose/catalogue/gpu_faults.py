"""GPUs and drivers that fail, are missing or are not ready, and kernels that break their rules."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.detect import Counted, Prints, Raises
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.kernel_lines import is_ours
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.diagnose.xid import XidAction, XidRecord, read_xid
from vllm_warden.core.model import Failure

_FAULT = Failure.GPU_FAULT
_ACCESS = Failure.ILLEGAL_MEMORY_ACCESS
_LATE = "Reported late: the call stack need not show the guilty kernel."
_BROKEN = frozenset({XidAction.RESET, XidAction.REBOOT})
_XID = re.compile(r"(?:^|kernel: |\] )NVRM: Xid \(PCI:")


def _xid_line(evidence: Evidence, actions: frozenset[XidAction]) -> str | None:
    """The first kernel line that asks for one of the actions; a later recovery line outranks it."""
    found: tuple[str, XidRecord] | None = None
    for line in evidence.kernel_lines:
        record = read_xid(line)
        if (
            record is not None
            and record.action in actions
            and is_ours(record, evidence)
            and (found is None or "recovery action" in line)
        ):
            found = line, record
    return found[0] if found else None


def _broken(evidence: Evidence) -> str | None:
    return _xid_line(evidence, _BROKEN)


def _process_lost(evidence: Evidence) -> str | None:
    return _xid_line(evidence, frozenset({XidAction.RESTART}))


SIGNATURES = (
    Signature(
        id="xid-device-lost",
        failure=_FAULT,
        detect=Counted(_broken),
        summary="The driver says that the GPU cannot go on as it is.",
        caution="Counts only together with a death: the line may be about another program's GPU.",
        weight=Weight.COUNTED,
        in_company=True,
    ),
    Signature(
        id="xid-process-lost",
        failure=_FAULT,
        detect=Counted(_process_lost),
        summary="The driver ended the process for a fault; the GPU itself goes on.",
        caution="Software causes most of these; the engine's own words outrank it.",
        in_company=True,
        likely=True,
        passing=True,
    ),
    Signature(
        id="xid-in-log",
        failure=_FAULT,
        detect=Prints(("NVRM: Xid (PCI:",), _XID, levels=(None,), within=True),
        summary="The driver's message about a GPU stands among the engine's lines.",
        caution="Counts only together with a death: the line may be about another program's GPU.",
        in_company=True,
        likely=True,
    ),
    Signature(
        id="gpu-missing",
        failure=_FAULT,
        detect=Raises(
            "",
            "",
            re.compile(
                r"no (?:CUDA|ROCm)-capable device is detected|invalid device ordinal"
                r"|No (?:CUDA GPUs|HIP GPUs|XPU devices) are available|Found no NVIDIA driver"
                r"|CUDA_ERROR_NO_DEVICE|NVML Shared Library Not Found|NVMLError_NotFound"
            ),
        ),
        summary="The engine sees no GPU, or fewer than it was told to use.",
        caution="GPUs may be hidden by CUDA_VISIBLE_DEVICES or the container rather than missing.",
    ),
    Signature(
        id="no-accelerator-found",
        failure=_FAULT,
        detect=Raises(
            "", "", re.compile(r"Failed to infer device type|Device string must not be empty")
        ),
        summary="vLLM finds no accelerator that it knows.",
        caution="The driver may be invisible in the container, or this vLLM built for another device.",
    ),
    Signature(
        id="gpu-lost",
        failure=_FAULT,
        detect=Raises(
            "",
            "",
            re.compile(
                r"GPU is lost|GPU_IS_LOST|GPU requires reset|GPU has fallen off the bus"
                r"|UR_RESULT_ERROR_DEVICE_LOST|Unable to determine the device handle"
                r"|Driver/library version mismatch|NVMLError_(?:DriverNotLoaded|GpuIsLost|LibRmVersionMismatch|ResetRequired|Unknown|LibraryNotFound)|CUDA unknown error"
                r"|(?:CUDA|HIP)(?: driver)? error: unknown error|cudaErrorECCUncorrectable|hipErrorECCNotCorrectable"
            ),
        ),
        summary="The driver no longer reaches the GPU.",
        caution="A driver that was updated under running programs looks the same until a reboot.",
    ),
    Signature(
        id="gpu-not-ready",
        failure=_FAULT,
        detect=Raises(
            "",
            "",
            re.compile(
                r"busy or unavailable|(?:CUDA|HIP) error: (?:device not ready|system not yet initialized"
                r"|initialization error)|Error 802: system not yet initialized"
            ),
        ),
        summary="The GPU does not accept a process at present.",
        caution="Exclusive mode, a process that is just going, or a fabric that is not up yet.",
        passing=True,
    ),
    Signature(
        id="launch-failed",
        failure=_FAULT,
        detect=Raises("", "error: unspecified launch failure"),
        summary="A GPU kernel ended in a way that the driver does not name.",
        caution="Software causes most of these; the kernel's log (Xid) tells more. " + _LATE,
        passing=True,
    ),
    Signature(
        id="launch-timed-out",
        failure=_FAULT,
        detect=Raises("", "the launch timed out and was terminated"),
        summary="The driver ended a kernel that ran too long.",
        caution=_LATE,
        passing=True,
    ),
    Signature(
        id="kernel-exception",
        failure=_ACCESS,
        detect=Raises(
            "",
            "",
            re.compile(
                r"(?:CUDA|HIP)(?: driver)? error: (?:misaligned address|an illegal instruction was encountered"
                r"|invalid program counter|operation not supported on global/shared address space|hardware stack error)"
                r"|cudaErrorMisalignedAddress|hipErrorIllegalAddress|UR_RESULT_ERROR_INVALID_MEM_OBJECT"
                r"|Page fault at 0x"
            ),
        ),
        summary="A GPU kernel broke the rules of the device's memory.",
        caution=_LATE,
    ),
    Signature(
        id="rocm-memory-fault",
        failure=_ACCESS,
        detect=Prints(
            (
                "Memory access fault by GPU node-",
                "HSA_STATUS_ERROR_EXCEPTION",
                "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION",
                "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION",
                "HW Exception by GPU node-",
            ),
            levels=(None,),
            within=True,
        ),
        summary="A kernel on an AMD GPU touched memory that is not its own.",
        caution=_LATE,
    ),
    Signature(
        id="device-assert",
        failure=Failure.KERNEL_FAILURE,
        detect=Raises("", "error: device-side assert triggered"),
        summary="A GPU kernel found its own input out of bounds.",
        caution="A token or index that the model does not have is the usual reason. " + _LATE,
    ),
)
