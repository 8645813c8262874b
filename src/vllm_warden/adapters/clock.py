"""Time, boot identity and jitter: the only place of the daemon that asks for them."""

from __future__ import annotations

import random
import time
from pathlib import Path

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


class SystemClock:
    """The clock of this machine; satisfies ``daemon.ports.Clock``."""

    def __init__(self, boot_id_file: Path = BOOT_ID_FILE) -> None:
        self._boot_id = boot_id_file.read_text(encoding="ascii").strip()
        self._random = random.SystemRandom()

    def now_seconds(self) -> float:
        """CLOCK_BOOTTIME: goes on through suspend and never jumps."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall_seconds(self) -> float:
        """Seconds since the epoch; for display only, it may jump."""
        return time.time()

    def boot_id(self) -> str:
        return self._boot_id

    def jitter_fraction(self) -> float:
        """Uniform in [0, 1)."""
        return self._random.random()
