"""Tells whose a kernel message is: those about other programs' processes and GPUs do not count."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.xid import XidAction, XidRecord, read_xid

_KILLED = re.compile(
    r"(?:^|kernel: |\] )(?:Memory cgroup out|Out) of memory: Killed process (\d{1,10}) "
)
_CHOSEN = re.compile(r"oom-kill:constraint=.*,pid=(\d{1,10}),uid=\d{1,10}\s*$")
"""Linux 4.20 and later. The task's name stands ahead of the number, and anybody can choose one."""
_OF_THE_DEVICE = frozenset({XidAction.RESET, XidAction.REBOOT})
_ADDRESS = re.compile(r"(?:0{4})?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.\d)?")


def oom_victim(line: str) -> int | None:
    """The process that the kernel killed for want of memory, None for every other line."""
    found = _KILLED.search(line) or _CHOSEN.search(line)
    return int(found[1]) if found else None


def tells_of_an_end(line: str) -> bool:
    """Whether a kernel message is of a kind that may explain why a process ended."""
    return oom_victim(line) is not None or read_xid(line) is not None


def pids_of(evidence: Evidence) -> frozenset[int]:
    """Every process that is known to have belonged to the attempt."""
    wrote = {record.pid for record in evidence.records if record.pid}
    return evidence.pids | wrote | {lost.pid for lost in evidence.lost_processes}


def is_ours(record: XidRecord, evidence: Evidence) -> bool:
    """Whether a driver's message is about the attempt's processes, or a GPU that it had.

    A GPU that cannot go on is lost to all who use it, whoever broke it. What names neither a
    known process nor a known GPU counts only where neither is known.
    """
    pids, gpus = pids_of(evidence), evidence.gpu_addresses
    if record.pid is not None and record.pid in pids:
        return True
    known = gpus if gpus is not None else _gpus_of(pids, evidence)
    at_ours = _address(record.pci) in {_address(gpu) for gpu in known}
    if record.pid is None or record.action in _OF_THE_DEVICE:
        return at_ours if gpus is not None or known else record.pid is None or not pids
    return not pids and (gpus is None or at_ours)


def _gpus_of(pids: frozenset[int], evidence: Evidence) -> frozenset[str]:
    """Where NVML told nothing: the GPUs of messages that name our processes."""
    records = (read_xid(line) for line in evidence.kernel_lines)
    return frozenset(record.pci for record in records if record and record.pid in pids)


def _address(text: str) -> str:
    """NVML writes ``00000000:3B:00.0``, the driver's messages ``0000:3b:00``."""
    found = _ADDRESS.fullmatch(text.lower())
    return found[1] if found else text.lower()
