"""One attempt's output as a journal stream: the engine writes, a thread of ours reads it back."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence

from vllm_warden.adapters.journal.entry import Entry, RawReader
from vllm_warden.adapters.journal.follow import (
    StreamFollower,
    find_attempt,
    find_stream_id,
    now_realtime_seconds,
)
from vllm_warden.adapters.journal.library import JournalUnavailable, journal_module
from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.diagnose.redact import redact

Deliver = Callable[[Sequence[LogRecord]], None]

PRIORITY_INFO = 6


def open_writer(identifier: str) -> int:
    """Descriptor of a new journal stream. Raises JournalUnavailable.

    Prefixes like ``<3>`` are not interpreted: engine text must arrive as it was written.
    """
    try:
        opened = journal_module().stream(identifier, PRIORITY_INFO, level_prefix=False)
    except OSError as error:
        raise JournalUnavailable(
            f"cannot open a journal stream: {error.strerror}; is systemd-journald running? "
            'Otherwise set log_backend = "file"'
        ) from error
    with opened:
        return os.dup(opened.fileno())


def write_line(fd: int, line: str, limit_seconds: float) -> bool:
    """Write without ever blocking longer than the limit: a hung journald stops reading.

    An empty line first ends what an engine that died in the middle of a line left behind.
    """
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    with socket.socket(fileno=os.dup(fd)) as stream:
        content = f"\n{line}\n".encode()
        deadline = time.monotonic() + limit_seconds
        while content:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return False
            try:
                content = content[stream.send(content, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
    return True


class JournalStream:
    """Satisfies ``daemon.ports.LogStream``."""

    def __init__(
        self, identifier: str, writer: int | None, make_follower: Callable[[], StreamFollower]
    ) -> None:
        """Owns the writer."""
        self._identifier = identifier
        self._writer = writer
        self._make_follower = make_follower
        self._expecting = False
        self._closing = threading.Event()
        self._end = ""
        self._ended = threading.Event()
        self._follower: StreamFollower | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def opened(cls, identifier: str, launch_id: str) -> JournalStream:
        """A new stream. Raises JournalUnavailable."""
        line = opening_line(launch_id, secrets.token_hex(8))
        since_seconds = now_realtime_seconds()
        writer = open_writer(identifier)
        if not write_line(writer, line, 1.0):
            os.close(writer)
            raise JournalUnavailable(
                "cannot open a journal stream: systemd-journald does not take our line; "
                "see `systemctl status systemd-journald`"
            )

        def find(reader: RawReader) -> str | None:
            return find_stream_id(reader, identifier, line, since_seconds)

        return cls(identifier, writer, lambda: StreamFollower(find, line))

    @classmethod
    def resumed(cls, identifier: str, launch_id: str, writer: int | None) -> JournalStream:
        """The stream of an earlier daemon, from its begin; of the launch id its begin will do."""
        opening = opening_line(launch_id, "").rstrip()

        def find(reader: RawReader) -> str | None:
            return find_attempt(reader, identifier, opening)

        return cls(identifier, writer, lambda: StreamFollower(find, opening))

    @property
    def writer_fd(self) -> int:
        """-1 where an earlier daemon's could not be had."""
        return -1 if self._writer is None else self._writer

    def start_reading(self, deliver: Deliver) -> None:
        thread = threading.Thread(
            target=self._read, args=(deliver,), name=f"journal {self._identifier}", daemon=True
        )
        thread.start()
        self._thread = thread  # only one that runs can be joined

    def expect_more(self, expecting: bool) -> None:
        self._expecting = expecting
        self._wake()

    def finish(self, limit_seconds: float = 2.0) -> bool:
        """False: journald or our reader is dead or too slow, lines may be missing."""
        if self._thread is None or not self._thread.is_alive():
            return False
        if self._writer is None:
            return False
        began = time.monotonic()
        self._ended.clear()
        self._end = f"vllm-warden end {secrets.token_hex(8)}"
        if not write_line(self._writer, self._end, limit_seconds):
            return False
        self._expecting = True
        self._wake()
        left = limit_seconds - (time.monotonic() - began)
        return self._ended.wait(max(0.0, left))

    def close(self) -> None:
        self._closing.set()
        self._wake()
        if self._thread is not None:
            self._thread.join(timeout=2)
        if self._writer is not None:
            with contextlib.suppress(OSError):
                os.close(self._writer)
        self._writer = None

    def _wake(self) -> None:
        if self._follower is not None:
            self._follower.wake()

    def _read(self, deliver: Deliver) -> None:
        """A Reader crashes the process when two threads touch it: it is made and closed here."""
        follower = self._make_follower()
        self._follower = follower
        number = 0
        try:
            while not self._closing.is_set():
                entries = follower.batch()
                if not entries:
                    follower.wait(self._expecting)
                    continue
                end = self._end.encode()
                kept = [entry for entry in entries if not end or entry.message != end]
                ended = len(kept) < len(entries)
                if ended:
                    kept.extend(follower.rest())
                deliver([_record(number + at, entry) for at, entry in enumerate(kept, 1)])
                number += len(kept)
                if ended:
                    self._expecting = False  # looking all the time would slow down the diagnosis
                    self._ended.set()
        finally:
            self._follower = None
            follower.close()
            follower.close_pipe()


def opening_line(launch_id: str, nonce: str) -> str:
    return f"vllm-warden begin {launch_id} {nonce}"


def _record(number: int, entry: Entry) -> LogRecord:
    return LogRecord(number, redact(entry.text), entry.pid, entry.at_seconds)
