"""The journal on its worse days, on a real systemd-journald where that is needed."""

import contextlib
import os
import pwd
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from vllm_warden.adapters.journal import follow
from vllm_warden.adapters.journal.entry import Entry, Joiner
from vllm_warden.adapters.journal.library import JournalUnavailable, journal_module
from vllm_warden.adapters.journal.own_log import JournalDatagram
from vllm_warden.core.diagnose.evidence import LogRecord


def entry(text, pid, *, piece=False):
    return Entry(text.encode(), pid, piece, 0.0)


def test_pieces_of_one_process_are_joined_and_others_pass_between():
    joiner = Joiner()
    assert joiner.add(entry("half ", 1, piece=True)) is None
    between = joiner.add(entry("other", 2))
    assert between is not None
    assert between.text == "other"
    whole = joiner.add(entry("line", 1))
    assert whole is not None
    assert whole.text == "half line"
    assert joiner.add(entry("lost", 3, piece=True)) is None
    assert [rest.text for rest in joiner.rest()] == ["lost"]
    assert joiner.rest() == []


def test_pieces_without_end_do_not_grow_and_never_become_lines():
    joiner = Joiner()
    for _ in range(100):
        assert joiner.add(entry("x" * 49152, 1, piece=True)) is None
        assert joiner.add(entry("other", 2)) == entry("other", 2)
    whole = joiner.add(entry("end", 1))
    assert whole is not None
    assert whole.text == "x" * 16384 + f" [{100 * 49152 + 3 - 16384} more bytes]"


def test_a_piece_that_lost_its_blanks_is_not_continued_by_what_follows():
    """Journald strips blanks, so a prompt could bring its words to any place of the record."""
    joiner = Joiner()
    assert joiner.add(Entry(b"head", 1, is_piece=True, at_seconds=1.0, dropped_bytes=1)) is None
    whole = joiner.add(entry("ERROR forged", 1))
    assert whole is not None
    assert whole.text == "head [13 more bytes]"


def test_a_piece_without_its_writer_goes_on_with_the_line_begun_last():
    """Seen on journald 252 under load, once in 1,500 lines: the rest stood as a line of its own."""
    joiner = Joiner()
    assert joiner.add(entry("half ", 7, piece=True)) is None
    whole = joiner.add(entry("ERROR forged", None))
    assert whole is not None
    assert (whole.text, whole.pid) == ("half ERROR forged", 7)
    assert joiner.add(entry("alone", None)) == entry("alone", None)


def test_what_follows_a_piece_without_its_writer_is_taken_for_its_rest():
    joiner = Joiner()
    assert joiner.add(entry("half ", None, piece=True)) is None
    whole = joiner.add(entry("ERROR forged", 2))
    assert whole is not None
    assert (whole.text, whole.pid) == ("half ERROR forged", 2)


class ForgetfulReader:
    """libsystemd's reader, when journald had counted an entry but not linked it to its fields."""

    def __init__(self, notices_fd):
        self._notices_fd = notices_fd
        self.entries = []
        self._at = 0
        self._is_blind = False

    def overlook(self, message):
        self.entries.append(message)
        self._is_blind = True

    def flush_matches(self):
        self._is_blind = False

    def add_match(self, **fields): ...
    def process(self): ...
    def seek_head(self): ...
    def seek_realtime(self, realtime): ...
    def close(self): ...

    def fileno(self):
        return self._notices_fd

    def _next(self):
        if self._is_blind or self._at == len(self.entries):
            return 0
        self._at += 1
        return 1

    def _get(self, key):
        if key == "_LINE_BREAK":
            raise KeyError(key)
        return {"_STREAM_ID": b"1", "_PID": b"1", "MESSAGE": self.entries[self._at - 1]}[key]

    def _get_monotonic(self):
        return (0, b"")


def test_an_entry_that_the_reader_overlooked_is_read_when_the_journal_says_it_changed(monkeypatch):
    notices, journald = os.pipe()
    reader = ForgetfulReader(notices)
    monkeypatch.setattr(follow, "open_reader", lambda: reader)
    follower = follow.StreamFollower(lambda _: "1", "begin")
    reader.entries.append(b"begin")
    assert follower.batch() == []
    reader.overlook(b"the last line of a crash")
    follower.wait(expecting=True)
    assert follower.batch() == []
    os.write(journald, b"changed")
    follower.wait(expecting=True)
    assert [entry.text for entry in follower.batch()] == ["the last line of a crash"]
    os.read(notices, 100)
    assert follower.batch() == []
    follower.close_pipe()
    os.close(notices)
    os.close(journald)


def test_without_systemd_python_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "systemd", None)
    with pytest.raises(JournalUnavailable) as caught:
        journal_module()
    text = str(caught.value)
    assert "python3-systemd" in text
    assert "libsystemd-dev" in text
    assert "vllm-warden[journal]" in text
    assert "\n" not in text


def test_own_lines_go_out_in_the_native_protocol(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "socket"))
        log = JournalDatagram(str(tmp_path / "socket"))
        assert log.send({"message": "one", "PRIORITY": "6", "_PID": "1", "bad name": "x"})
        assert log.send({"MESSAGE": "two\nlines"})
        assert server.recv(4096) == b"MESSAGE=one\nPRIORITY=6\n"
        assert server.recv(4096) == b"MESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\n"
        log.close()


def test_own_lines_are_dropped_and_counted_when_journald_hangs(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "socket"))
        log = JournalDatagram(str(tmp_path / "socket"))
        sent = 0
        while log.send({"MESSAGE": "x" * 1000}):
            sent += 1
            assert sent < 100_000
        assert log.dropped == 1
        server.recv(4096)
        assert log.send({"MESSAGE": "again"})
        log.close()


def test_own_lines_without_journald_are_dropped_and_counted(tmp_path):
    log = JournalDatagram(str(tmp_path / "missing"))
    assert not log.send({"MESSAGE": "x"})
    assert log.dropped == 1
    log.close()


@pytest.fixture
def log():
    from vllm_warden.adapters.journal.backend import JournalLog

    return JournalLog()


def journald_pid():
    """The journald of this mount namespace's rig: ours to stop, nobody else's."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            name = (directory / "comm").read_text().strip()
            same = (directory / "ns/mnt").samefile("/proc/self/ns/mnt")
        except OSError:
            continue
        if name == "systemd-journal" and same:
            return int(directory.name)
    raise AssertionError("no journald in this mount namespace: run under tests/rigs/journald.sh")


def fill(fd):
    """Write until journald's socket takes no more, as a chatty engine would."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    with socket.socket(fileno=os.dup(fd)) as stream:
        while poll.poll(0):
            with contextlib.suppress(BlockingIOError):
                stream.send(b"x" * 40_000 + b"\n", socket.MSG_DONTWAIT)


@pytest.mark.journald
def test_own_lines_reach_a_real_journald():
    log = JournalDatagram()
    mark = os.urandom(8).hex()
    assert log.send({"MESSAGE": f"own {mark}\nline", "SYSLOG_IDENTIFIER": "vllm-wardend"})
    reader = journal_module().Reader()
    reader.add_match(SYSLOG_IDENTIFIER="vllm-wardend")
    deadline = time.monotonic() + 10
    found = None
    while found is None and time.monotonic() < deadline:
        reader.process()
        found = next((one for one in reader if mark in one["MESSAGE"]), None)
    reader.close()
    assert found is not None
    assert found["MESSAGE"] == f"own {mark}\nline"


@pytest.mark.journald
def test_a_hung_journald_makes_evidence_incomplete_and_blocks_nobody_for_long(log):
    stream = log.open_stream("hung", 1, os.urandom(16).hex())
    seen: list[LogRecord] = []
    stream.start_reading(seen.extend)
    os.write(stream.writer_fd, b"before\n")
    assert stream.finish(10)
    pid = journald_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        fill(stream.writer_fd)
        began = time.monotonic()
        assert not stream.finish(0.3)
        assert log.self_test() is not None
        assert time.monotonic() - began < 5
    finally:
        os.kill(pid, signal.SIGCONT)
    assert stream.finish(10)
    assert seen[0].text == "before"
    stream.close()


@pytest.mark.journald
def test_lines_after_a_rotation_of_the_journal_are_read(log):
    stream = log.open_stream("rotated", 1, os.urandom(16).hex())
    seen: list[LogRecord] = []
    stream.start_reading(seen.extend)
    for number in range(4):
        os.write(stream.writer_fd, f"line {number}\n".encode())
        assert stream.finish(10)
        os.kill(journald_pid(), signal.SIGUSR2)  # "request immediate rotation"
    assert [record.text for record in seen] == [f"line {number}" for number in range(4)]
    stream.close()


@pytest.mark.journald
def test_engine_text_with_priority_prefixes_and_our_markers_is_kept_as_it_is(log):
    stream = log.open_stream("marks", 1, "feed")
    seen: list[LogRecord] = []
    stream.start_reading(seen.extend)
    os.write(stream.writer_fd, b"<3>text\nvllm-warden begin feed 0123\n")
    assert stream.finish(10)
    assert [record.text for record in seen] == ["<3>text", "vllm-warden begin feed 0123"]
    assert {record.pid for record in seen} == {os.getpid()}
    stream.close()


@pytest.mark.journald
def test_an_idle_stream_uses_no_cpu(log):
    streams = [log.open_stream("idle", n, os.urandom(8).hex()) for n in range(4)]
    for stream in streams:
        stream.start_reading(lambda _: None)
        assert stream.finish(10)
        stream.expect_more(expecting=False)
    time.sleep(0.7)  # journald's own change notices of what was just written
    before = time.process_time()
    time.sleep(1.0)
    used = time.process_time() - before
    for stream in streams:
        stream.close()
    assert used < 0.002


@pytest.mark.journald
def test_a_reader_without_the_right_group_is_told_which(log):
    """It opens without an error and finds nothing, so only the self-test can tell."""
    nobody = pwd.getpwnam("nobody")
    reading, writing = os.pipe()
    child = os.fork()  # not exec: that user may not be able to read our interpreter
    if child == 0:
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        os.write(writing, (log.self_test() or "passed").encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    answer = os.read(reading, 4096).decode()
    os.close(reading)
    assert "not in the group systemd-journal" in answer


@pytest.mark.journald
def test_many_streams_are_followed_at_once(log):
    streams = [log.open_stream("many", n, os.urandom(16).hex()) for n in range(8)]
    seen: list[list[str]] = [[] for _ in streams]
    for stream, mine in zip(streams, seen, strict=True):
        stream.start_reading(lambda records, mine=mine: mine.extend(r.text for r in records))
    writers = [
        threading.Thread(
            target=lambda stream=stream, n=n: [
                os.write(stream.writer_fd, f"{n}: {line}\n".encode()) for line in range(300)
            ]
        )
        for n, stream in enumerate(streams)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    for n, (stream, mine) in enumerate(zip(streams, seen, strict=True)):
        assert stream.finish(20)
        assert mine == [f"{n}: {line}" for line in range(300)]
        stream.close()
