"""Follows one journal stream by its _STREAM_ID, in the thread that calls it."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable

from vllm_warden.adapters.journal.entry import (
    Entry,
    Joiner,
    RawReader,
    boottime_offset,
    field,
    next_entry,
)
from vllm_warden.adapters.journal.library import journal_module

POLL_SECONDS = 0.002
"""An entry can be read about a millisecond after it was written, but journald's change notice
comes 250 ms later or more (it gathers notices; systemd issue 17574)."""

IDLE_SECONDS = 30.0
LOOK_SECONDS = 5.0
"""So long the stream's first line is looked for eagerly, then once a second."""

BATCH = 512


def open_reader() -> RawReader:
    """A reader of this machine's journals; it belongs to the thread that calls this."""
    reader: RawReader = journal_module().Reader()
    reader.fileno()  # early, otherwise files removed by rotation stay open (systemd issue 14695)
    return reader


def find_stream_id(
    reader: RawReader, identifier: str, line: str, since_seconds: float
) -> str | None:
    """_STREAM_ID of the stream that carries our opening line; None while that is not there.

    The journal does not tell a writer its own stream, and _STREAM_ID is the one field that is
    unique per stream and cannot be forged. The whole line is a match of its own, which journald has
    an index for: reading through what earlier attempts left takes 50 ms after a long traceback.
    """
    reader.flush_matches()
    reader.add_match(MESSAGE=line)
    reader.add_match(SYSLOG_IDENTIFIER=identifier)
    reader.add_match(_TRANSPORT="stdout")
    reader.seek_realtime(since_seconds)
    reader.process()
    while reader._next():  # noqa: SLF001
        if field(reader, "MESSAGE") == line:
            return field(reader, "_STREAM_ID") or None
    return None


def find_attempt(reader: RawReader, identifier: str, opening: str) -> str | None:
    """_STREAM_ID of the stream whose first line begins so; it may be long over.

    The oldest such line is ours: it was written before the engine was started, and the engine
    could only have copied it later.
    """
    reader.flush_matches()
    reader.add_match(SYSLOG_IDENTIFIER=identifier)
    reader.add_match(_TRANSPORT="stdout")
    reader.seek_head()
    reader.process()
    while reader._next():  # noqa: SLF001
        if field(reader, "MESSAGE").startswith(opening):
            return field(reader, "_STREAM_ID") or None
    return None


class StreamFollower:
    """Reads whole lines of one stream, waiting by fd when idle, by timer when expecting.

    ``find`` tells the stream's _STREAM_ID as soon as the journal has it; lines that begin with
    ``opening``, our own first one, are left out.
    """

    def __init__(self, find: Callable[[RawReader], str | None], opening: str) -> None:
        self._find_stream = find
        self._opening = opening.encode()
        self._reader = open_reader()
        self._joiner = Joiner()
        self._stream_id: str | None = None
        self._was_notified = False
        self._own_pid = os.getpid()
        self._began = time.monotonic()
        self._pipe_read, self._pipe_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._pipe_read, select.POLLIN)
        self._poll.register(self._reader.fileno(), select.POLLIN)

    def batch(self) -> list[Entry]:
        """What can be read now, oldest first, without our opening line."""
        if self._stream_id is None and not self._find():
            return []
        self._reader.process()
        entries = self._read()
        if not entries and self._was_notified:
            self._look_again()
            entries = self._read()
        self._was_notified = False
        return entries

    def _read(self) -> list[Entry]:
        entries = []
        offset = boottime_offset()
        for _ in range(BATCH):
            entry = next_entry(self._reader, offset)
            if entry is None:
                break
            # our own lines are never cut: they must not be taken for the rest of a cut one
            whole = entry if entry.pid == self._own_pid else self._joiner.add(entry)
            if whole is not None and not whole.message.startswith(self._opening):
                entries.append(whole)
        return entries

    def rest(self) -> list[Entry]:
        return self._joiner.rest()

    def wait(self, expecting: bool) -> None:
        limit = POLL_SECONDS if expecting else IDLE_SECONDS
        if self._stream_id is None:
            is_early = time.monotonic() - self._began < LOOK_SECONDS
            limit = POLL_SECONDS if is_early else 1.0
        for fd, _ in self._poll.poll(limit * 1000):
            if fd == self._pipe_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(fd, 4096)
            else:
                self._was_notified = True

    def wake(self) -> None:
        """From any thread."""
        with contextlib.suppress(OSError):
            os.write(self._pipe_write, b"w")

    def close(self) -> None:
        """In the reader's own thread."""
        self._reader.close()

    def close_pipe(self) -> None:
        """When no thread will wake us any more."""
        for fd in (self._pipe_read, self._pipe_write):
            with contextlib.suppress(OSError):
                os.close(fd)

    def _find(self) -> bool:
        stream_id = self._find_stream(self._reader)
        if stream_id is None:
            return False
        self._stream_id = stream_id
        self._look_again()
        self._reader.seek_head()
        return True

    def _look_again(self) -> None:
        """Find what libsystemd overlooked.

        journald counts an entry before it links it to its fields. A reader that comes in between
        finds nothing, remembers the count, and looks no more until the next entry of anyone is
        stored, which on a quiet host can take an hour. New matches make it forget the count.
        """
        self._reader.flush_matches()
        self._reader.add_match(_STREAM_ID=self._stream_id or "")


def now_realtime_seconds() -> float:
    """Where to begin looking for a line that is about to be written, with room for a clock step."""
    return time.time() - 60
