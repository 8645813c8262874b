"""Log files stay bounded, and following them costs nothing while nothing happens."""

import os
import time

import pytest

from vllm_warden.adapters.log_file import wake
from vllm_warden.adapters.log_file.backend import FileLog
from vllm_warden.adapters.log_file.cap import punch_middle, remove_old_attempts
from vllm_warden.core.diagnose.evidence import LogRecord

MIB = 1 << 20


def test_a_chatty_engine_does_not_fill_the_disk_and_head_and_tail_survive(tmp_path):
    backend = FileLog(tmp_path, cap_bytes=8 * MIB)
    stream = backend.open_stream("one", 1, "aa")
    seen: list[LogRecord] = []
    stream.start_reading(seen.extend)
    stream.expect_more(expecting=True)
    count = 40_000
    block = 500
    for first in range(0, count, block):
        lines = "".join(f"line {n:08d} {'x' * 1000}\n" for n in range(first, first + block))
        os.write(stream.writer_fd, lines.encode())
    assert stream.finish(30)
    assert len(seen) == count
    status = stream.path.stat()
    assert status.st_size > 38 * MIB
    assert status.st_blocks * 512 < 13 * MIB
    stream.close()
    kept = [record.text[:13] for record in backend.read_attempt("one", 1, "aa", None)]
    assert kept[0] == "line 00000000"
    assert kept[-1] == f"line {count - 1:08d}"
    assert len(kept) < count


def test_what_was_not_read_yet_is_never_given_up(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"x" * (8 * MIB))
    fd = os.open(path, os.O_RDWR)
    assert not punch_middle(fd, read_bytes=0, cap_bytes=MIB)
    assert punch_middle(fd, read_bytes=2 * MIB, cap_bytes=MIB)
    content = path.read_bytes()
    assert content[: MIB // 16] == b"x" * (MIB // 16)
    assert content[2 * MIB :] == b"x" * (6 * MIB)
    os.close(fd)


def test_only_the_newest_attempts_are_kept(tmp_path):
    for number in range(1, 26):
        (tmp_path / f"attempt-{number}-aa.log").write_text("x")
    (tmp_path / "notes.txt").write_text("not ours")
    remove_old_attempts(tmp_path, keep=20)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert "attempt-5-aa.log" not in left
    assert "attempt-6-aa.log" in left
    assert len(left) == 21


def test_files_are_not_for_everybody(tmp_path):
    stream = FileLog(tmp_path).open_stream("one", 1, "aa")
    assert stream.path.stat().st_mode & 0o777 & ~0o640 == 0
    stream.close()


def test_an_idle_stream_uses_no_cpu(tmp_path):
    """The daemon's whole budget at rest is 0.1 % of a core; polling every 10 ms takes 1 %."""
    streams = [FileLog(tmp_path).open_stream("one", n, "aa") for n in range(8)]
    for stream in streams:
        stream.start_reading(lambda _: None)
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(1.0)
    used = time.process_time() - before
    for stream in streams:
        stream.close()
    assert used < 0.002


def test_following_works_by_polling_where_inotify_is_used_up(tmp_path, monkeypatch):
    monkeypatch.setattr(wake, "_watch", lambda _: None)
    stream = FileLog(tmp_path).open_stream("one", 1, "aa")
    seen: list[LogRecord] = []
    stream.start_reading(seen.extend)
    os.write(stream.writer_fd, b"line\n")
    assert stream.finish(5)
    assert [record.text for record in seen] == ["line"]
    stream.close()


def test_an_unwritable_directory_fails_the_self_test_with_its_path(tmp_path):
    (tmp_path / "log").write_text("a file")
    assert str(tmp_path / "log") in (FileLog(tmp_path).self_test() or "")


@pytest.mark.parametrize("name", ["log", "log/one"])
def test_missing_directories_are_made(tmp_path, name):
    assert FileLog(tmp_path).self_test() is None
    FileLog(tmp_path).open_stream("one", 1, "aa").close()
    assert (tmp_path / name).is_dir()
