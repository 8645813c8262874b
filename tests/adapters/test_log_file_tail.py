"""The last lines of a long log cost little, and are the same lines under the same numbers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vllm_warden.adapters.log_file import content, tail
from vllm_warden.adapters.log_file.backend import FileLog
from vllm_warden.core.diagnose.evidence import LogRecord

PARTS = st.sampled_from([b"a", b"word ", b"\n", b"\n\n", b"\0", b" ", b"\t", b"\x1f", b"x" * 30])
HOLE = -1


def log_of(directory: Path, parts: bytes | list[bytes | int]) -> FileLog:
    backend = FileLog(directory)
    path = directory / "log" / "one" / "attempt-1-aa.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as opened:
        for part in [parts] if isinstance(parts, bytes) else parts:
            if isinstance(part, int):
                opened.truncate(opened.tell() // 4096 * 4096 + 12288)
                opened.seek(0, os.SEEK_END)
            else:
                opened.write(part)
    return backend


@given(st.lists(PARTS | st.just(HOLE), max_size=60), st.integers(1, 20))
@settings(max_examples=80, deadline=None)
def test_the_last_lines_are_the_end_of_all_lines(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes | int], last: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(content, "CHUNK_BYTES", 16)
        backend = log_of(tmp_path_factory.mktemp("log"), parts)
        whole = backend.read_attempt("one", 1, "aa", None)
        assert backend.read_attempt("one", 1, "aa", last) == whole[-last:]


def test_of_a_long_log_only_the_end_is_taken_apart(tmp_path: Path) -> None:
    count = 1_000_000
    lines = b"".join(b"INFO: 127.0.0.1 POST /v1/completions %d\n" % n for n in range(1, count + 1))
    backend = log_of(tmp_path, lines)
    began = time.thread_time()
    records = backend.read_attempt("one", 1, "aa", 1)
    assert time.thread_time() - began < 0.8
    assert records == (LogRecord(count, f"INFO: 127.0.0.1 POST /v1/completions {count}"),)


def test_lines_of_megabytes_do_not_make_all_of_it_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "TAIL_BYTES_MAX", 1 << 20)
    backend = log_of(tmp_path, (b"x" * (1 << 20) + b"\n") * 20)
    records = backend.read_attempt("one", 1, "aa", 1000)
    assert [record.number for record in records] == [20]


def test_a_hole_of_terabytes_is_stepped_over(tmp_path: Path) -> None:
    """An engine can make one with ``ftruncate`` on its output."""
    backend = FileLog(tmp_path)
    stream = backend.open_stream("one", 1, "aa")
    seen: list[LogRecord] = []
    stream.start_reading(seen.extend)
    os.write(stream.writer_fd, b"before\n")
    os.ftruncate(stream.writer_fd, 1 << 42)
    began = time.process_time()
    time.sleep(0.3)
    os.write(stream.writer_fd, b"\nafter\n")
    stream.finish(5)  # whether that counts as complete is for another test
    assert time.process_time() - began < 0.2
    assert [record.text for record in seen] == ["before", "after"]
    stream.close()
    assert [record.text for record in backend.read_attempt("one", 1, "aa", 5)] == [
        "before",
        "after",
    ]
