"""Keeps engine output in systemd's journal, which outlives this daemon."""

from __future__ import annotations

import contextlib
import grp
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence

from vllm_warden.adapters.journal.entry import (
    Entry,
    Joiner,
    RawReader,
    boottime_offset,
    next_entry,
)
from vllm_warden.adapters.journal.follow import (
    find_attempt,
    find_stream_id,
    now_realtime_seconds,
    open_reader,
)
from vllm_warden.adapters.journal.library import JournalUnavailable, journal_module
from vllm_warden.adapters.journal.stream import (
    JournalStream,
    open_writer,
    opening_line,
    write_line,
)
from vllm_warden.core.diagnose.evidence import LogRecord, newest
from vllm_warden.core.diagnose.redact import redact

MARKER = re.compile(r"vllm-warden (?:end [0-9a-f]{16}|begin \S+ [0-9a-f]{16})")
SELF_TEST_SECONDS = 2.0


class JournalLog:
    """Satisfies ``daemon.ports.LogBackend``."""

    name = "journal"

    def __init__(self) -> None:
        """Raises JournalUnavailable where systemd-python is not installed."""
        journal_module()

    def self_test(self) -> str | None:
        """Write a line and read it back. Blocks up to 2 s."""
        line = opening_line("self-test", secrets.token_hex(8))
        since_seconds = now_realtime_seconds()
        try:
            writer = open_writer("vllm-warden-self-test")
        except JournalUnavailable as error:
            return str(error)
        try:
            if not write_line(writer, line, 1.0):
                return "cannot write to the journal: systemd-journald does not take our line"
            return self._read_back(line, since_seconds)
        finally:
            os.close(writer)

    def open_stream(self, instance: str, attempt: int, launch_id: str) -> JournalStream:  # noqa: ARG002
        """Raises JournalUnavailable."""
        return JournalStream.opened(f"vllm-{instance}", launch_id)

    def resume_stream(
        self,
        instance: str,
        attempt: int,  # noqa: ARG002
        launch_id: str,
        writer_fd: int | None,
    ) -> JournalStream:
        """Takes over the descriptor. Without one the log's end cannot be proven."""
        return JournalStream.resumed(f"vllm-{instance}", launch_id, writer_fd)

    def read_attempt(
        self,
        instance: str,
        attempt: int,  # noqa: ARG002
        launch_id: str,
        last_lines: int | None,
    ) -> Sequence[LogRecord]:
        """Empty when the journal has no such attempt (any more). Reads all of it: use a thread."""
        reader = open_reader()
        try:
            opening = opening_line(launch_id, "")
            stream_id = find_attempt(reader, f"vllm-{instance}", opening)
            if stream_id is None:
                return ()
            reader.flush_matches()
            reader.add_match(_STREAM_ID=stream_id)
            reader.seek_head()
            records = (
                LogRecord(number, redact(entry.text), entry.pid, entry.at_seconds)
                for number, entry in enumerate(_lines(reader), start=1)
            )
            return newest(records, last_lines)
        finally:
            reader.close()

    def _read_back(self, line: str, since_seconds: float) -> str | None:
        reader = open_reader()
        try:
            deadline = time.monotonic() + SELF_TEST_SECONDS
            while time.monotonic() < deadline:
                if find_stream_id(reader, "vllm-warden-self-test", line, since_seconds):
                    return None
                time.sleep(0.01)
        finally:
            reader.close()
        return _why_unreadable()


def _lines(reader: RawReader) -> Iterator[Entry]:
    joiner = Joiner()
    reader.process()
    offset = boottime_offset()
    while (entry := next_entry(reader, offset)) is not None:
        whole = joiner.add(entry)
        if whole is not None and not MARKER.fullmatch(whole.text):
            yield whole
    yield from joiner.rest()


def _why_unreadable() -> str:
    """Without the right group a reader opens without an error and finds nothing."""
    groups = {"systemd-journal", "adm"}
    ours = set()
    for number in os.getgroups():
        with contextlib.suppress(KeyError):
            ours.add(grp.getgrgid(number).gr_name)
    if os.geteuid() != 0 and not ours & groups:
        return (
            "cannot read our own journal lines back: this user is not in the group "
            'systemd-journal; add it, or set log_backend = "file"'
        )
    return (
        f"cannot read our own journal lines back within {SELF_TEST_SECONDS:g} s: is journald's "
        'Storage= "none", or its disk full? Otherwise set log_backend = "file"'
    )
