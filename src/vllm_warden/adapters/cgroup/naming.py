"""Names the group of an attempt, and reads such a name back after a restart of the daemon."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

INSTANCE = re.compile(r"instance-([a-z0-9-]{1,32})")
ATTEMPT = re.compile(r"attempt-(\d+)-([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class AttemptName:
    """Instance, attempt number and the first 8 hex digits of the launch id."""

    instance: str
    attempt: int
    launch_prefix: str

    def below(self, root: Path) -> Path:
        name = f"attempt-{self.attempt}-{self.launch_prefix}"
        return root / f"instance-{self.instance}" / name


def launch_prefix(launch_id: str) -> str:
    """First 8 hex digits of a launch id; of its hash where the id is not hexadecimal."""
    if re.fullmatch(r"[0-9a-f]{8}", launch_id[:8]):
        return launch_id[:8]
    return hashlib.sha256(launch_id.encode()).hexdigest()[:8]


def attempts_below(root: Path) -> list[AttemptName]:
    """Every attempt group that exists below the root, whoever made it."""
    found = []
    for path in sorted(root.glob("instance-*/attempt-*-*")):
        instance = INSTANCE.fullmatch(path.parent.name)
        attempt = ATTEMPT.fullmatch(path.name)
        if instance and attempt and path.is_dir():
            found.append(AttemptName(instance[1], int(attempt[1]), attempt[2]))
    return found
