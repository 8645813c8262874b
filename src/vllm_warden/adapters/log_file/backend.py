"""Keeps engine output in files of the state directory, where there is no journald."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from vllm_warden.adapters.log_file.cap import CAP_BYTES, KEEP_ATTEMPTS, remove_old_attempts
from vllm_warden.adapters.log_file.content import pieces
from vllm_warden.adapters.log_file.lines import LineCutter
from vllm_warden.adapters.log_file.stream import FileStream
from vllm_warden.adapters.log_file.tail import Place, place_of_last
from vllm_warden.core.diagnose.evidence import LogRecord, newest
from vllm_warden.core.diagnose.redact import redact

END = re.compile(r"vllm-warden end [0-9a-f]{16}")


class FileLog:
    """Satisfies ``daemon.ports.LogBackend``: ``<state>/log/NAME/attempt-N-<launch>.log``."""

    name = "file"

    def __init__(
        self,
        state_directory: Path,
        cap_bytes: int = CAP_BYTES,
        keep_attempts: int = KEEP_ATTEMPTS,
    ) -> None:
        self._directory = state_directory / "log"
        self._cap_bytes = cap_bytes
        self._keep_attempts = keep_attempts

    def self_test(self) -> str | None:
        probe = self._directory / ".self-test"
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o750)
            probe.write_bytes(b"vllm-warden self test\n")
            probe.unlink()
        except OSError as error:
            return f"cannot write {probe}: {error.strerror}"
        return None

    def open_stream(self, instance: str, attempt: int, launch_id: str) -> FileStream:
        """Raises OSError. Old attempts beyond the kept number are removed first."""
        path = self._path(instance, attempt, launch_id)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        remove_old_attempts(path.parent, self._keep_attempts - 1)
        return FileStream(path, self._cap_bytes)

    def resume_stream(
        self, instance: str, attempt: int, launch_id: str, writer_fd: int | None
    ) -> FileStream:
        """An earlier daemon's, from its begin; of the launch id its begin will do. Raises OSError.

        The descriptor is closed: the file is written through one of our own.
        """
        if writer_fd is not None:
            os.close(writer_fd)
        pattern = self._path(instance, attempt, f"{launch_id}*")
        for path in sorted(pattern.parent.glob(pattern.name)):
            return FileStream(path, self._cap_bytes)
        raise FileNotFoundError(errno.ENOENT, "there is no such log", str(pattern))

    def read_attempt(
        self, instance: str, attempt: int, launch_id: str, last_lines: int | None
    ) -> Sequence[LogRecord]:
        """Empty when there is no such file (any more)."""
        try:
            fd = os.open(self._path(instance, attempt, launch_id), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        try:
            place = Place() if last_lines is None else place_of_last(fd, last_lines)
            lines = enumerate(_lines(fd, place), start=place.lines + 1)
            return newest((LogRecord(number, redact(line)) for number, line in lines), last_lines)
        finally:
            os.close(fd)

    def forget(self, instance: str) -> None:
        """Remove all files of an instance."""
        shutil.rmtree(self._directory / instance, ignore_errors=True)

    def _path(self, instance: str, attempt: int, launch_id: str) -> Path:
        return self._directory / instance / f"attempt-{attempt}-{launch_id}.log"


def _lines(fd: int, place: Place) -> Iterator[str]:
    cutter = LineCutter()
    if place.inside:
        cutter.gap()
    for piece in pieces(fd, place.offset):
        lines = cutter.gap() if piece.after_gap else []
        lines += cutter.feed(piece.content)
        yield from (line for line in lines if not END.fullmatch(line))
    yield from cutter.flush()
