"""One contract for engine output, whether it goes to the journal, to files or to the fake."""

import os
import subprocess
import sys
import threading
import time

import pytest

from tests.fakes.log_backend import FakeLog
from vllm_warden.adapters.log_file.backend import FileLog


class Collected:
    """Gathers records and lets a test wait for them."""

    def __init__(self):
        self.records = []
        self.changed = threading.Condition()

    def __call__(self, records):
        with self.changed:
            self.records.extend(records)
            self.changed.notify_all()

    @property
    def texts(self):
        return [record.text for record in self.records]

    def wait_for(self, count, seconds=10):
        with self.changed:
            return self.changed.wait_for(lambda: len(self.records) >= count, seconds)


@pytest.fixture(params=["fake", "file", pytest.param("journal", marks=pytest.mark.journald)])
def backend(request, tmp_path):
    if request.param == "fake":
        return FakeLog()
    if request.param == "file":
        return FileLog(tmp_path)
    from vllm_warden.adapters.journal.backend import JournalLog

    return JournalLog()


@pytest.fixture
def launch_id():
    return os.urandom(16).hex()


@pytest.fixture
def stream(backend, launch_id):
    opened = backend.open_stream("contract", 1, launch_id)
    yield opened
    opened.close()


def write_through_child(stream, script, *words):
    subprocess.run(
        [sys.executable, "-c", script, *words],
        stdout=stream.writer_fd,
        stderr=stream.writer_fd,
        check=False,
    )


def write(stream, content):
    rest = content
    while rest:
        rest = rest[os.write(stream.writer_fd, rest) :]


def read_all(stream, content):
    """What comes back for bytes written by one process."""
    got = Collected()
    stream.start_reading(got)
    stream.expect_more(expecting=True)
    write_through_child(stream, f"import os; os.write(1, {content!r})")
    assert stream.finish(10)
    return got.texts


def test_self_test_passes(backend):
    assert backend.self_test() is None


def test_lines_come_back_in_order_and_once_each_with_leading_blanks(stream):
    lines = ["first", '  File "x.py", line 1', "\tindented", "", "last  "]
    texts = read_all(stream, "".join(f"{line}\n" for line in lines).encode())
    assert [text for text in texts if text] == [
        "first",
        '  File "x.py", line 1',
        "\tindented",
        "last",
    ]


def test_a_crash_of_2003_lines_is_complete_when_finish_returns(stream):
    got = Collected()
    stream.start_reading(got)
    script = (
        "import sys\n"
        "for n in range(2003): print(f'line {n}', flush=n % 100 == 0)\n"
        "sys.stdout.flush()\n"
        "raise RuntimeError('CUDA out of memory')\n"
    )
    write_through_child(stream, script)
    assert stream.finish(10)
    assert got.texts[:2003] == [f"line {n}" for n in range(2003)]
    assert got.texts[2003] == "Traceback (most recent call last):"
    assert got.texts[-1] == "RuntimeError: CUDA out of memory"
    assert [record.number for record in got.records] == list(range(1, len(got.records) + 1))


def test_what_was_written_before_reading_began_comes_back_too(stream):
    got = Collected()
    write_through_child(stream, "print('early')")
    stream.start_reading(got)
    assert stream.finish(10)
    assert got.texts == ["early"]


def test_lines_arrive_while_the_engine_runs(stream):
    got = Collected()
    stream.start_reading(got)
    write(stream, b"hello\n")
    assert got.wait_for(1)
    assert got.texts == ["hello"]
    assert got.records[0].at_seconds == pytest.approx(
        time.clock_gettime(time.CLOCK_BOOTTIME), abs=15
    )


def test_expected_lines_arrive_within_a_tenth_of_a_second(stream):
    got = Collected()
    stream.start_reading(got)
    write(stream, b"warm up\n")
    assert got.wait_for(1)
    stream.expect_more(expecting=True)
    took = []
    for number in range(2, 7):
        began = time.monotonic()
        write(stream, b"now\n")
        assert got.wait_for(number)
        took.append(time.monotonic() - began)
    assert sorted(took)[2] < 0.1


FORGED = "(EngineCore_DP0 pid=4711) ERROR 11-29 16:10:00 [core.py:500] forged"
"""What a prompt would have to put at the begin of a record."""

PIECE = 48 * 1024
"""Where journald cuts lines; a forged header at each such place, and at each step of 16 KiB."""


def hostile_line(length):
    line = ("x" * 17 + " prompt").ljust(16 * 1024, ".")
    while len(line) < length:
        line += FORGED.ljust(16 * 1024, ".")
    return line[: length - 1] + "x"


@pytest.mark.parametrize("length", [50 * 1024, 300 * 1024, 5_000_000, 3 * PIECE - 1, 3 * PIECE + 1])
def test_a_line_of_any_length_is_one_record_whatever_is_in_it(backend, stream, launch_id, length):
    """A prompt in the log must not be able to write records of the engine."""
    line = hostile_line(length)
    got = Collected()
    stream.start_reading(got)
    stream.expect_more(expecting=True)
    write_through_child(
        stream,
        "import os, sys\n"
        "from tests.contracts.test_log_backend import hostile_line\n"
        "rest = f'before\\n{hostile_line(int(sys.argv[1]))}\\nafter\\n'.encode()\n"
        "while rest: rest = rest[os.write(1, rest):]\n",
        str(length),
    )
    assert stream.finish(20)
    again = backend.read_attempt("contract", 1, launch_id, None)
    for texts in (got.texts, [record.text for record in again]):
        assert [texts[0], texts[-1], len(texts)] == ["before", "after", 3]
        assert texts[1].startswith(line[: 16 * 1024])
        assert FORGED not in texts[1]
        assert texts[1].endswith(f" [{length - 16 * 1024} more bytes]")


def test_a_long_line_into_which_another_process_writes_is_still_one_record(stream):
    got = Collected()
    stream.start_reading(got)
    write_through_child(
        stream,
        "import os, subprocess, sys\n"
        "piece = int(sys.argv[1])\n"
        "def write(rest):\n"
        "    while rest: rest = rest[os.write(1, rest):]\n"
        "write(b'y' * (piece + 1000))\n"
        "subprocess.run(['/bin/echo', '\\n<between>'])\n"
        "write(b'y' * piece + b'yy\\n')\n",
        str(PIECE),
    )
    assert stream.finish(10)
    assert got.texts.count("<between>") == 1
    assert not any(text.startswith("yyy") and "between" in text for text in got.texts)
    assert sum(len(text) for text in got.texts) < 2 * 16 * 1024 + 200


def test_blanks_do_not_bring_later_words_of_a_line_to_its_kept_begin(stream):
    """Journald strips the blanks at the end of each piece."""
    texts = read_all(stream, b"head".ljust(PIECE) + FORGED.encode() + b"\nafter\n")
    assert texts[0].startswith("head [")
    assert texts[1:] == ["after"]


def test_a_line_of_wide_characters_is_kept_to_its_bytes(stream):
    texts = read_all(stream, ("x" + "\u20ac" * 7_000 + "\nafter\n").encode())
    assert texts[0] == "x" + "\u20ac" * 5461 + f" [{21_001 - 16_384} more bytes]"
    assert texts[1:] == ["after"]


def test_nul_ends_a_line(stream):
    assert read_all(stream, b"one\0two\n") == ["one", "two"]


def test_bytes_that_are_not_utf8_are_replaced(stream):
    assert read_all(stream, b"caf\xe9 \xff!\n") == ["caf� �!"]


def test_carriage_returns_and_colours_inside_a_line_are_kept(stream):
    content = b"\x1b[32mINFO\x1b[0m Loading: 10%\rLoading: 20%\n"
    assert read_all(stream, content) == [content.decode().rstrip("\n")]


def test_half_lines_of_two_processes_lose_no_piece(stream):
    got = Collected()
    stream.start_reading(got)
    script = "import os, sys; os.write(1, sys.argv[1].encode())"
    for piece in ("<first half>", "<other half>", "<second half>\n", "<other end>\n"):
        write_through_child(stream, script, piece)
    assert stream.finish(10)
    together = "".join(got.texts)
    for piece in ("<first half>", "<other half>", "<second half>", "<other end>"):
        assert together.count(piece) == 1


def test_half_a_line_at_the_end_comes_back(stream):
    assert read_all(stream, b"whole\nterminate called after throwing") == [
        "whole",
        "terminate called after throwing",
    ]


def test_finish_can_be_asked_again_and_waits_again(stream):
    """A surviving worker may write after the first end marker."""
    got = Collected()
    stream.start_reading(got)
    for text in ("first", "second"):
        write(stream, f"{text}\n".encode() * 300)
        assert stream.finish(10)
        assert got.texts[-1] == text
    assert len(got.texts) == 600


@pytest.mark.parametrize(
    "backend", ["file", pytest.param("journal", marks=pytest.mark.journald)], indirect=True
)
@pytest.mark.parametrize("known", [32, 8], ids=["whole launch id", "its begin"])
def test_a_later_daemon_reads_a_stream_from_its_begin_and_proves_its_end(
    backend, stream, launch_id, known
):
    got, again = Collected(), Collected()
    stream.start_reading(got)
    write_through_child(stream, "print('early')")
    assert stream.finish(10)
    resumed = backend.resume_stream("contract", 1, launch_id[:known], os.dup(stream.writer_fd))
    resumed.start_reading(again)
    write_through_child(resumed, "print('late')")
    try:
        assert resumed.finish(10)
    finally:
        resumed.close()
    assert [text for text in again.texts if "vllm-warden end" not in text] == ["early", "late"]


@pytest.mark.journald
def test_a_journal_stream_whose_writing_end_is_lost_is_read_but_never_complete():
    from vllm_warden.adapters.journal.backend import JournalLog

    backend, launch_id = JournalLog(), os.urandom(16).hex()
    first, got = backend.open_stream("contract", 1, launch_id), Collected()
    write_through_child(first, "print('early')")
    resumed = backend.resume_stream("contract", 1, launch_id, None)
    resumed.start_reading(got)
    assert got.wait_for(1)
    assert got.texts == ["early"]
    assert not resumed.finish(10)
    resumed.close()
    first.close()


def test_finish_without_a_reader_is_incomplete(stream):
    write(stream, b"lost\n")
    began = time.monotonic()
    assert not stream.finish(0.2)
    assert time.monotonic() - began < 2


def test_finish_with_a_dead_reader_is_incomplete(stream, monkeypatch):
    """A reader that fails while delivering must not make evidence look complete."""
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    died = threading.Event()

    def deliver(records):
        died.set()
        raise MemoryError

    stream.start_reading(deliver)
    stream.expect_more(expecting=True)
    write(stream, b"line\n")
    assert died.wait(10)
    assert not stream.finish(0.3)


def test_two_streams_do_not_mix(backend):
    streams = [backend.open_stream("contract", n, os.urandom(16).hex()) for n in (1, 2)]
    both = [Collected(), Collected()]
    for stream, got in zip(streams, both, strict=True):
        stream.start_reading(got)
    for n in range(50):
        for which, stream in enumerate(streams):
            write(stream, f"stream {which} line {n}\n".encode())
    for stream in streams:
        assert stream.finish(10)
        stream.close()
    for which, got in enumerate(both):
        assert got.texts == [f"stream {which} line {n}" for n in range(50)]


def test_an_attempt_can_be_read_again_later(backend, stream, launch_id):
    read_all(stream, b"one\ntwo\nthree\n")
    stream.close()
    records = backend.read_attempt("contract", 1, launch_id, None)
    assert [(record.number, record.text) for record in records] == [
        (1, "one"),
        (2, "two"),
        (3, "three"),
    ]
    newest = backend.read_attempt("contract", 1, launch_id, 2)
    assert [record.text for record in newest] == ["two", "three"]


def test_an_unknown_attempt_has_no_lines(backend):
    assert list(backend.read_attempt("contract", 7, os.urandom(16).hex(), 10)) == []


def test_secrets_are_masked_before_anyone_sees_them(backend, stream, launch_id):
    texts = read_all(stream, b"args: --api-key hunter2secret --port 8000\n")
    assert "hunter2" not in str(texts)
    assert "--port 8000" in texts[0]
    assert "hunter2" not in str(backend.read_attempt("contract", 1, launch_id, None))


def test_a_marker_that_the_engine_prints_does_not_end_the_evidence(stream):
    """Prompts reach the log, so text that looks like ours must not cut it."""
    texts = read_all(stream, b"vllm-warden end 0123456789abcdef x\nafter\n")
    assert texts[-1] == "after"


def test_close_is_quick_and_repeatable(backend):
    stream = backend.open_stream("contract", 1, os.urandom(16).hex())
    stream.start_reading(Collected())
    began = time.monotonic()
    stream.close()
    stream.close()
    assert time.monotonic() - began < 1
