"""The kernel's messages as the journal has them; nobody else can speak as the kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from vllm_warden.adapters.journal.kernel_log import LINES_MAX, JournalKernelLog
from vllm_warden.adapters.journal.library import journal_module

KILLED = "Out of memory: Killed process 41234 (python) total-vm:1kB"
LOST = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


class Reader:
    """Holds (seconds of CLOCK_MONOTONIC, message) of the kernel."""

    def __init__(self, entries: Sequence[tuple[float, str]]) -> None:
        self.matches: dict[str, str] = {}
        self.sought: float | None = None
        self.closed = False
        self._entries: Iterator[tuple[float, str]] = iter(entries)
        self._at = (0.0, "")

    def _next(self, skip: int = 1) -> int:
        try:
            self._at = next(self._entries)
        except StopIteration:
            return 0
        return skip

    def _get(self, key: str) -> bytes:
        if key != "MESSAGE":
            raise KeyError(key)
        return self._at[1].encode()

    def _get_monotonic(self) -> tuple[int, bytes]:
        return int(self._at[0] * 1e6), b""

    def process(self) -> int:
        return 0

    def fileno(self) -> int:
        return -1

    def add_match(self, *_args: str, **kwargs: str) -> None:
        self.matches.update(kwargs)

    def flush_matches(self) -> None:
        self.matches.clear()

    def seek_head(self) -> None:
        self.sought = 0.0

    def seek_realtime(self, realtime: float) -> None:
        self.sought = realtime

    def close(self) -> None:
        self.closed = True


def boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def test_lines_of_the_attempts_time_that_may_explain_its_end_are_read() -> None:
    now = time.monotonic()
    reader = Reader(
        [
            (now - 100, KILLED.replace("41234", "1")),
            (now - 5, "usb 1-1: new device"),
            (now - 4, KILLED),
            (now - 3, LOST + "x" * 9999),
        ]
    )
    first, second = JournalKernelLog(lambda: reader).lines(boot_seconds() - 10)
    assert first == KILLED
    assert second.startswith(LOST)
    assert len(second) == 1000
    assert reader.closed
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    assert reader.matches == {
        "_TRANSPORT": "kernel",
        "SYSLOG_IDENTIFIER": "kernel",
        "_BOOT_ID": boot,
    }
    assert reader.sought is not None
    assert time.time() - 100 < reader.sought < time.time() - 10


def test_a_gpu_that_says_the_same_without_end_is_kept_within_bounds() -> None:
    reader = Reader([(time.monotonic(), f"{LOST} {number}") for number in range(3 * LINES_MAX)])
    lines = JournalKernelLog(lambda: reader).lines(boot_seconds() - 10)
    assert len(lines) == LINES_MAX
    assert lines[-1].endswith(str(3 * LINES_MAX - 1))


@pytest.mark.journald
def test_on_a_real_journal_nobody_else_speaks_as_the_kernel() -> None:
    since = boot_seconds()
    journal = journal_module()
    with journal.stream("kernel", 6) as stream:
        stream.write(f"{LOST} forged\n{KILLED} forged\n")
        stream.flush()
    journal.send(f"{KILLED} forged {os.getpid()}", SYSLOG_IDENTIFIER="kernel", TRANSPORT="kernel")
    reader = journal.Reader()
    reader.add_match(SYSLOG_IDENTIFIER="kernel")
    deadline = time.monotonic() + 10
    arrived = 0
    while arrived < 3 and time.monotonic() < deadline:
        reader.seek_head()
        arrived = sum("forged" in str(entry.get("MESSAGE")) for entry in reader)
        time.sleep(0.02)
    reader.close()
    assert arrived >= 3
    assert not any("forged" in line for line in JournalKernelLog().lines(since))
