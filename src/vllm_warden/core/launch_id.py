"""What a launch is known by, in the name of its cgroup, its log and its temporary directory."""

from __future__ import annotations

import re

_LAUNCH_ID = re.compile(r"[0-9a-f]{8,64}")
PREFIX_DIGITS = 8


def is_launch_id(text: str) -> bool:
    """True for what a daemon of ours gives out: hexadecimal digits, 16 of them at a launch."""
    return _LAUNCH_ID.fullmatch(text) is not None


def launch_prefix(launch_id: str) -> str:
    """The digits that names have room for; of two launches of one host they hardly agree."""
    return launch_id[:PREFIX_DIGITS]
