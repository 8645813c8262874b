"""What a new daemon knows of an attempt that an earlier daemon launched and did not see end."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.model import ProcessIdentity, Settings


@dataclass(frozen=True, slots=True)
class FoundEngine:
    """One attempt of this boot.

    ``identity`` is its parent process, None where that has ended meanwhile. Times are
    CLOCK_BOOTTIME. ``forgotten`` True means that what it shows is not learned, as of a trial.
    """

    attempt: int
    launch_id: str
    settings: Settings
    gpu_indices: tuple[int, ...]
    launched_seconds: float
    identity: ProcessIdentity | None
    ready_since_seconds: float | None = None
    forgotten: bool = False
    free_at_launch_bytes: int | None = None
    total_at_launch_bytes: int | None = None
