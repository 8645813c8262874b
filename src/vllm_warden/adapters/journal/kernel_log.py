"""Reads the kernel's messages from the journal: the OOM killer's and the NVIDIA driver's."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from vllm_warden.adapters.journal.entry import RawReader, boottime_offset, field, next_entry
from vllm_warden.adapters.journal.follow import open_reader
from vllm_warden.core.diagnose.kernel_lines import tells_of_an_end

LINES_MAX = 200
"""The newest; a GPU that is lost prints the same few lines again and again."""
LINE_MAX = 1000
CLOCK_STEP_SECONDS = 60.0


class JournalKernelLog:
    """Satisfies ``daemon.ports.KernelLog``.

    _TRANSPORT is journald's own word and cannot be forged; only root can write to /dev/kmsg, and
    what does so has another identifier than the kernel.
    """

    def __init__(self, make_reader: Callable[[], RawReader] = open_reader) -> None:
        self._make_reader = make_reader

    def lines(self, since_seconds: float) -> Sequence[str]:
        """Raises OSError where the journal is broken."""
        reader = self._make_reader()  # it belongs to the thread that makes it
        try:
            return self._lines(reader, since_seconds)
        finally:
            reader.close()

    def _lines(self, reader: RawReader, since_seconds: float) -> Sequence[str]:
        reader.add_match(_TRANSPORT="kernel")
        reader.add_match(SYSLOG_IDENTIFIER="kernel")
        reader.add_match(_BOOT_ID=_boot_id())
        ago_seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - since_seconds
        reader.seek_realtime(time.time() - ago_seconds - CLOCK_STEP_SECONDS)
        reader.process()
        offset = boottime_offset()
        kept: deque[str] = deque(maxlen=LINES_MAX)
        while (entry := next_entry(reader, offset)) is not None:
            text = field(reader, "MESSAGE")[:LINE_MAX]
            if entry.at_seconds >= since_seconds and tells_of_an_end(text):
                kept.append(text)
        return tuple(kept)


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
        return file.read().strip().replace("-", "")
