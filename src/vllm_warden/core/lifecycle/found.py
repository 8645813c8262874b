"""What a new daemon knows of an attempt that an earlier daemon launched and did not see end."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.lifecycle.trial import Trial
from vllm_warden.core.model import ProcessIdentity, Settings


@dataclass(frozen=True, slots=True)
class LaunchedAs:
    """What the settings file said when it was launched: where it answers, and what was asked."""

    model: str
    host: str
    port: int
    engine: Settings


def asks_for_others(now: Settings, then: Settings, asked: Settings, in_force: Settings) -> bool:
    """Whether the settings file asks for others than an engine was launched with.

    ``now`` and ``then`` are the file's engine tables. A table that asks for what is in force
    (``asked``: with the defaults) changes nothing: settings were accepted.
    """
    return dict(now) != dict(then) and dict(asked) != dict(in_force)


@dataclass(frozen=True, slots=True)
class FoundEngine:
    """One attempt of this boot.

    ``identity`` is its parent process, None where that has ended meanwhile. Times are
    CLOCK_BOOTTIME. ``trial`` is what a person asked to try with it; ``forgotten`` True means that
    what it shows is not learned.
    """

    attempt: int
    launch_id: str
    settings: Settings
    gpu_indices: tuple[int, ...]
    launched_seconds: float
    identity: ProcessIdentity | None
    ready_since_seconds: float | None = None
    forgotten: bool = False
    trial: Trial | None = None
    free_at_launch_bytes: int | None = None
    total_at_launch_bytes: int | None = None
    launched_as: LaunchedAs | None = None
    """None: as the settings file says now."""
    stop_asked: bool = False
    """It was told to end, so its end is none that nobody asked for."""
