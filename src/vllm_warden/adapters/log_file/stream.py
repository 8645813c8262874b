"""One attempt's output in one file: the engine appends, a thread of ours reads."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from vllm_warden.adapters.log_file.cap import CAP_BYTES, punch_middle
from vllm_warden.adapters.log_file.follow import BEHIND_BYTES_MAX, FileFollower
from vllm_warden.adapters.log_file.lines import LineCutter
from vllm_warden.adapters.log_file.wake import FileWake
from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.diagnose.redact import redact

CAP_CHECK_BYTES = 1 << 24
FINISH_BYTES_PER_SECOND = 4 << 20
"""A reader that is further behind than this cannot come to the end within ``finish``'s limit; it
jumps there instead, so that the engine's last words are among the evidence."""

Deliver = Callable[[Sequence[LogRecord]], None]


class FileStream:
    """Satisfies ``daemon.ports.LogStream``."""

    def __init__(self, path: Path, cap_bytes: int = CAP_BYTES) -> None:
        self.path = path
        self._cap_bytes = cap_bytes
        self._writer = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # with a position of its own
        self._wake = FileWake(path)
        self._follower = FileFollower(self._reader)
        self._behind_bytes_max = BEHIND_BYTES_MAX
        self._expecting = False
        self._closing = False
        self._end = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def writer_fd(self) -> int:
        return self._writer

    def start_reading(self, deliver: Deliver) -> None:
        thread = threading.Thread(
            target=self._read, args=(deliver,), name=f"log {self.path.name}", daemon=True
        )
        thread.start()
        self._thread = thread  # only one that runs can be joined

    def expect_more(self, expecting: bool) -> None:
        self._expecting = expecting
        self._wake.wake()

    def finish(self, limit_seconds: float = 2.0) -> bool:
        """False when the marker did not come back: reader dead, disk full, or out of time.

        False too when some of the log was jumped over, now or long ago.
        """
        if self._thread is None or not self._thread.is_alive():
            return False
        self._ended.clear()
        self._end = f"vllm-warden end {secrets.token_hex(8)}"
        self._expecting = True
        within_limit = int(limit_seconds * FINISH_BYTES_PER_SECOND)
        self._behind_bytes_max = min(BEHIND_BYTES_MAX, within_limit)
        try:
            os.write(self._writer, f"\n{self._end}\n".encode())
        except OSError:
            return False
        self._wake.wake()
        return self._ended.wait(limit_seconds) and not self._follower.has_lost

    def close(self) -> None:
        self._closing = True
        self._wake.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2)
        if self._thread is None or not self._thread.is_alive():
            self._wake.close()
            for fd in (self._reader, self._writer):
                with contextlib.suppress(OSError):
                    os.close(fd)
            self._reader = self._writer = -1  # the numbers may be somebody else's by the next call

    def _read(self, deliver: Deliver) -> None:
        cutter = LineCutter()
        follower = self._follower
        number = checked = 0
        while not self._closing:
            before = follower.dropped_lines
            content = follower.next(self._behind_bytes_max)
            if content == b"":
                self._wake.wait(self._expecting)
                continue
            records = []
            ended = False
            for line in cutter.gap() if content is None else cutter.feed(content):
                if self._end and line == self._end:
                    ended = True
                    continue
                number += 1
                records.append(LogRecord(number, redact(line), at_seconds=_now_seconds()))
            number += follower.dropped_lines - before
            if records:
                deliver(records)
            if ended:
                self._expecting = False  # looking all the time would slow down the diagnosis
                self._ended.set()
            if follower.offset - checked > min(CAP_CHECK_BYTES, self._cap_bytes // 4):
                punch_middle(self._writer, follower.offset, self._cap_bytes)
                checked = follower.offset


def _now_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
