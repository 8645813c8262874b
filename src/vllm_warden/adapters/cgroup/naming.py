"""Names the group of an attempt, and reads such a name back after a restart of the daemon."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

INSTANCE = re.compile(r"instance-([a-z0-9-]{1,32})")
ATTEMPT = re.compile(r"attempt-([0-9]{1,9})-([0-9a-f]{8})")
BESIDE_INSTANCES = frozenset({"supervisor", ".control"})
"""Where the daemon itself sits below its unit, and what systemd starts for the unit."""


@dataclass(frozen=True, slots=True)
class AttemptName:
    """Instance, attempt number and the first 8 hex digits of the launch id."""

    instance: str
    attempt: int
    launch_prefix: str

    def below(self, root: Path) -> Path:
        name = f"attempt-{self.attempt}-{self.launch_prefix}"
        return root / f"instance-{self.instance}" / name


def attempts_below(root: Path) -> list[AttemptName]:
    """Every attempt group that exists below the root, whoever made it."""
    found = []
    for path in sorted(root.glob("instance-*/*")):
        instance = INSTANCE.fullmatch(path.parent.name)
        attempt = ATTEMPT.fullmatch(path.name)
        if instance and attempt and path.is_dir():
            found.append(AttemptName(instance[1], int(attempt[1]), attempt[2]))
    return found


def nameless_below(root: Path) -> list[tuple[str, Path]]:
    """Groups in an instance's own directory that bear no attempt's name, with the instance."""
    found = []
    for path in sorted(root.glob("instance-*/*")):
        instance = INSTANCE.fullmatch(path.parent.name)
        if instance and not ATTEMPT.fullmatch(path.name) and path.is_dir():
            found.append((instance[1], path))
    return found


def others_below(root: Path) -> list[Path]:
    """Every other group below our root; no daemon of ours puts processes there.

    An instance's own directory is among them: what sits in it sits in no group of an attempt.
    """
    if not root.is_dir():
        return []
    below = sorted(path for path in root.iterdir() if path.is_dir())
    return [path for path in below if path.name not in BESIDE_INSTANCES]


def is_of_an_attempt(path: str) -> bool:
    """Whether a group's path below our root, ``instance-a/attempt-1-0badcafe/x``, is understood."""
    first, *rest = path.split("/")
    if first in BESIDE_INSTANCES:
        return True
    return INSTANCE.fullmatch(first) is not None and bool(rest) and bool(ATTEMPT.fullmatch(rest[0]))
