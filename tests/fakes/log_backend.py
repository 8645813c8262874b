"""A log backend in memory: a pipe per attempt, cut into lines as the real ones do."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence

from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.diagnose.long_line import shortened
from vllm_warden.core.diagnose.redact import redact


class FakeStream:
    """Satisfies ``daemon.ports.LogStream``; ``stored`` keeps what was delivered."""

    def __init__(self) -> None:
        self.stored: list[LogRecord] = []
        self.expecting = False
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC)
        self._end = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._early = threading.Thread(target=self._drain, daemon=True)
        self._content = b""
        self._content_changed = threading.Condition()
        self._closed = False
        self._early.start()

    @property
    def writer_fd(self) -> int:
        return self._writer

    def start_reading(self, deliver: Callable[[Sequence[LogRecord]], None]) -> None:
        self._thread = threading.Thread(target=self._read, args=(deliver,), daemon=True)
        self._thread.start()

    def expect_more(self, expecting: bool) -> None:
        self.expecting = expecting

    def finish(self, limit_seconds: float = 2.0) -> bool:
        if self._thread is None or not self._thread.is_alive():
            return False
        self._ended.clear()
        self._end = f"vllm-warden end {secrets.token_hex(8)}"
        os.write(self._writer, f"\n{self._end}\n".encode())
        return self._ended.wait(limit_seconds)

    def close(self) -> None:
        with self._content_changed:
            if self._closed:
                return
            self._closed = True
            self._content_changed.notify_all()
        os.close(self._writer)

    def _drain(self) -> None:
        """Empties the pipe at once, so that no writer ever waits for a reader."""
        while content := os.read(self._reader, 65536):
            with self._content_changed:
                self._content += content
                self._content_changed.notify_all()
        os.close(self._reader)

    def _read(self, deliver: Callable[[Sequence[LogRecord]], None]) -> None:
        while True:
            with self._content_changed:
                self._content_changed.wait_for(
                    lambda: b"\n" in self._content or b"\0" in self._content or self._closed
                )
                whole, found, self._content = self._content.rpartition(b"\n")
                if not found:
                    return
            self._deliver(whole, deliver)

    def _deliver(self, whole: bytes, deliver: Callable[[Sequence[LogRecord]], None]) -> None:
        for line in re.split(rb"[\n\0]", whole):
            text = shortened(line)
            if self._end and text == self._end:
                self._ended.set()
                continue
            if not text:
                continue
            record = LogRecord(
                number=len(self.stored) + 1,
                text=redact(text),
                at_seconds=time.clock_gettime(time.CLOCK_BOOTTIME),
            )
            self.stored.append(record)
            deliver([record])


class FakeLog:
    """Satisfies ``daemon.ports.LogBackend``."""

    name = "fake"

    def __init__(self, problem: str | None = None) -> None:
        self.problem = problem
        self.streams: dict[tuple[str, int, str], FakeStream] = {}

    def self_test(self) -> str | None:
        return self.problem

    def open_stream(self, instance: str, attempt: int, launch_id: str) -> FakeStream:
        stream = FakeStream()
        self.streams[instance, attempt, launch_id] = stream
        return stream

    def resume_stream(
        self, instance: str, attempt: int, launch_id: str, writer_fd: int | None
    ) -> FakeStream:
        """No daemon outlives this one's memory."""
        raise FileNotFoundError(instance, attempt, launch_id, writer_fd)

    def read_attempt(
        self, instance: str, attempt: int, launch_id: str, last_lines: int | None
    ) -> Sequence[LogRecord]:
        stream = self.streams.get((instance, attempt, launch_id))
        records = stream.stored if stream else []
        return tuple(records if last_lines is None else records[-last_lines:])
