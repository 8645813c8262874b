"""Reads the NVIDIA driver's kernel messages (Xid) and says what the vendor asks for after each.

Meanings and actions are those of NVIDIA's Xid catalogue for Ampere and later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class XidAction(StrEnum):
    """What the vendor asks for, from nothing to a reboot."""

    NOTHING = "nothing"
    """Recorded only, or left behind by a process that was killed."""
    WATCH = "watch"
    """Works on; the device should be looked at soon."""
    RESTART = "restart"
    """The process is lost, the device is not."""
    RESET = "reset"
    """The GPU has to be reset before anything may use it again."""
    REBOOT = "reboot"
    """Only a reboot of the host brings the GPU back."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One number of the catalogue."""

    meaning: str
    action: XidAction


_NOTHING, _WATCH, _RESTART = XidAction.NOTHING, XidAction.WATCH, XidAction.RESTART
_RESET, _REBOOT = XidAction.RESET, XidAction.REBOOT

RECOVERY_CHANGED = 154
"""Drivers from R565 on print with it what the device needs: it outranks all other numbers."""

XIDS: Mapping[int, Xid] = MappingProxyType(
    {
        8: Xid("GPU stopped processing", _RESTART),
        13: Xid("graphics engine exception", _RESTART),
        31: Xid("GPU memory page fault", _RESTART),
        32: Xid("corrupted push buffer", _RESTART),
        39: Xid("copy engine exception", _RESTART),
        40: Xid("copy engine exception", _RESTART),
        41: Xid("copy engine exception", _RESTART),
        43: Xid("fault of the application, the GPU is healthy", _RESTART),
        44: Xid("fault during a context switch", _NOTHING),
        45: Xid("clean-up behind a process that ended", _NOTHING),
        46: Xid("GPU stopped processing, timed out", _RESET),
        48: Xid("double-bit memory error", _RESET),
        61: Xid("power management unit breakpoint", _WATCH),
        62: Xid("power management unit halted", _RESET),
        63: Xid("row remapping recorded", _NOTHING),
        64: Xid("row remapping failed", _RESET),
        69: Xid("graphics engine class error", _RESTART),
        70: Xid("copy engine exception", _RESTART),
        71: Xid("copy engine exception", _RESTART),
        72: Xid("copy engine exception", _RESTART),
        74: Xid("NVLink error", _RESET),
        75: Xid("copy engine exception", _RESTART),
        76: Xid("copy engine exception", _RESTART),
        77: Xid("copy engine exception", _RESTART),
        78: Xid("virtual GPU did not start", _WATCH),
        79: Xid("GPU has fallen off the bus", _REBOOT),
        85: Xid("copy engine exception", _RESTART),
        92: Xid("high rate of single-bit memory errors", _WATCH),
        94: Xid("contained memory error", _RESTART),
        95: Xid("uncontained memory error", _RESET),
        109: Xid("context switch timed out", _RESET),
        110: Xid("security fault", _RESET),
        119: Xid("GPU system processor did not answer", _RESET),
        120: Xid("GPU system processor error", _RESET),
        121: Xid("corrected error between CPU and GPU", _NOTHING),
        136: Xid("NVLink training failed", _RESET),
        137: Xid("NVLink privilege error", _RESTART),
        140: Xid("unrecovered memory error", _RESET),
        143: Xid("GPU initialisation error", _RESET),
        144: Xid("NVLink 5 error (SAW)", _WATCH),
        145: Xid("NVLink 5 error (RLW)", _WATCH),
        146: Xid("NVLink 5 error (TLW)", _WATCH),
        147: Xid("NVLink 5 error (TREX)", _WATCH),
        148: Xid("NVLink 5 error (NVLPW)", _WATCH),
        149: Xid("NVLink 5 error (NETIR)", _WATCH),
        150: Xid("NVLink 5 error (MSE)", _WATCH),
        RECOVERY_CHANGED: Xid("recovery action changed", _NOTHING),
        156: Xid("resource retired", _RESET),
        157: Xid("resource retirement failed", _WATCH),
        158: Xid("GPU timed out for good", _RESET),
        171: Xid("uncorrectable memory error", _RESET),
        172: Xid("uncorrectable memory error on the chip", _RESET),
    }
)

_RECOVERY = {
    "none": _NOTHING,
    "drain p2p": _RESET,
    "drain and reset": _RESET,
    "gpu reset required": _RESET,
    "node reboot required": _REBOOT,
}
_LINE = re.compile(
    r"NVRM: Xid \(PCI:(?P<pci>[0-9a-fA-F:.]{4,20})\): (?P<xid>\d{1,4})"
    r"(?:, pid='?(?P<pid>\d{1,10})\b)?"
)
_CHANGED = re.compile(
    r"recovery action changed from 0x[0-9a-fA-F]{1,8} \([^)]{0,40}\) "
    r"to 0x[0-9a-fA-F]{1,8} \((?P<to>[^)]{0,40})\)"
)


@dataclass(frozen=True, slots=True)
class XidRecord:
    """One kernel line: the number, the device's PCI address and, where told, the process."""

    number: int
    pci: str
    pid: int | None
    meaning: str
    action: XidAction


def read_xid(line: str) -> XidRecord | None:
    """None for every other kernel line; an unknown number is to be watched."""
    found = _LINE.search(line)
    if found is None:
        return None
    number = int(found["xid"])
    known = XIDS.get(number, Xid("a number that this catalogue does not know", _WATCH))
    action = known.action
    if number == RECOVERY_CHANGED and (changed := _CHANGED.search(line)):
        action = _RECOVERY.get(changed["to"].strip().lower(), _WATCH)
    pid = int(found["pid"]) if found["pid"] else None
    return XidRecord(number, found["pci"].lower(), pid, known.meaning, action)
