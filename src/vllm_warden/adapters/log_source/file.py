"""Reads the bytes of a log once: a file, compressed or not, a pipe, or standard input."""

from __future__ import annotations

import io
import os
import select
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO

from vllm_warden.adapters.log_source.compression import (
    DAMAGED,
    MAGIC_BYTES,
    decompressed,
    foreign_format,
)

CHUNK_BYTES = 1 << 20
FIRST_BYTE_SECONDS = 5.0
"""How long a named pipe may have no writer: a shell's ``<(...)`` may be a moment late."""


class UnreadableLogError(OSError):
    """There is no log to be had from here; ``hint`` says what to do instead."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class LogSource:
    """Iterated once: the log's bytes, decompressed.

    ``total_bytes`` are those on disk, None for a pipe; ``read_bytes`` says how many of them were
    read so far. ``damaged`` says why not all could be read, if so.
    """

    def __init__(self, raw: BinaryIO, total_bytes: int | None) -> None:
        self._raw = raw
        self.total_bytes = total_bytes
        self.read_bytes = 0
        self.damaged: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        buffered = io.BufferedReader(_Counted(self._raw, self._count), CHUNK_BYTES)
        with buffered:
            begin = buffered.peek(MAGIC_BYTES)[:MAGIC_BYTES]
            foreign = foreign_format(begin)
            if foreign is not None:
                raise UnreadableLogError(*foreign)
            stream = decompressed(begin, buffered)
            try:
                while chunk := stream.read1(CHUNK_BYTES):
                    yield chunk
            except DAMAGED as error:
                self.damaged = f"the compressed data is damaged or ends early: {error}"

    def _count(self, size: int) -> None:
        self.read_bytes += size


class _Counted(io.RawIOBase):
    """Counts what is read of a file or pipe."""

    def __init__(self, raw: BinaryIO, count: Callable[[int], None]) -> None:
        self._raw = raw
        self._count = count

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        size = self._raw.readinto(buffer)  # type: ignore[attr-defined]
        self._count(size or 0)
        return size or 0

    def close(self) -> None:
        self._raw.close()
        super().close()


def open_log(path: str) -> LogSource:
    """Raises OSError, UnreadableLogError among them, where this is no file or pipe to be read."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(file)
        _refuse_directory(status, path)
        if stat.S_ISFIFO(status.st_mode):
            _await_writer(file, path)
        os.set_blocking(file, True)
        total = status.st_size if stat.S_ISREG(status.st_mode) else None
        return LogSource(os.fdopen(file, "rb", buffering=0), total)
    except BaseException:
        with suppress(OSError):
            os.close(file)
        raise


def standard_input(stream: BinaryIO) -> LogSource:
    """What comes in; the program's own standard input stays open."""
    total = None
    with suppress(OSError, ValueError):
        status = os.fstat(stream.fileno())
        total = status.st_size if stat.S_ISREG(status.st_mode) else None
    return LogSource(_KeptOpen(stream), total)  # type: ignore[arg-type]


class _KeptOpen:
    """Only what is needed of a stream that somebody else closes."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readinto(self, buffer: memoryview) -> int:
        read = getattr(self._stream, "readinto1", None) or self._stream.readinto  # type: ignore[attr-defined]
        return int(read(buffer) or 0)

    def close(self) -> None:
        pass


def _refuse_directory(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise UnreadableLogError(
            "it is a directory", f"name the files in it: {path.rstrip('/')}/*.log"
        )


def _await_writer(file: int, path: str) -> None:
    """A pipe without a writer would be waited for for ever."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    if poll.poll(FIRST_BYTE_SECONDS * 1000):
        return
    with suppress(BlockingIOError):
        if os.read(file, 1) == b"":
            raise UnreadableLogError(
                f"it is a pipe that nothing has written to for {FIRST_BYTE_SECONDS:g} s",
                f"start what writes to it, or: PROGRAM | vllm-warden diagnose - (not {path})",
            )
    # otherwise there is a writer, it is only slow
