"""A reader that cannot keep up jumps ahead, and what it jumped over is never called complete."""

import os
import re
import threading
import time

import pytest

from vllm_warden.adapters.log_file import follow
from vllm_warden.adapters.log_file import stream as stream_module
from vllm_warden.adapters.log_file.backend import FileLog

MIB = 1 << 20
LINE = re.compile(r"line \d{8} x{50}")


class SlowDelivery:
    """Takes its first lines at once and the others only when the gate is open."""

    def __init__(self):
        self.records = []
        self.began = threading.Event()
        self.gate = threading.Event()
        self.looked = lambda: None

    def __call__(self, records):
        self.records.extend(records)
        self.looked()
        self.began.set()
        self.gate.wait(30)


@pytest.fixture
def delivery():
    made = SlowDelivery()
    yield made
    made.gate.set()


@pytest.fixture
def stream(tmp_path, delivery, monkeypatch):
    monkeypatch.setattr(follow, "KEPT_BYTES", MIB // 8)
    monkeypatch.setattr(stream_module, "BEHIND_BYTES_MAX", 2 * MIB)
    opened = FileLog(tmp_path, cap_bytes=MIB).open_stream("one", 1, "aa")
    opened.start_reading(delivery)
    opened.expect_more(expecting=True)
    yield opened
    delivery.gate.set()
    opened.close()


def flood(stream, size):
    """Whole lines of so many bytes; returns how many."""
    count = size // 65
    lines = "".join(f"line {number:08d} {'x' * 50}\n" for number in range(1, count + 1))
    os.write(stream.writer_fd, lines.encode())
    return count


def lag(stream, delivery, size):
    """Write while the reader is held up, then let it go."""
    os.write(stream.writer_fd, b"first\n")
    assert delivery.began.wait(10)
    return flood(stream, size)


def test_far_behind_it_drops_the_middle_counted_and_in_order(stream, delivery):
    count = lag(stream, delivery, 6 * MIB)
    delivery.gate.set()
    assert not stream.finish(20)
    texts = [record.text for record in delivery.records]
    assert texts[0] == "first"
    assert all(LINE.fullmatch(text) for text in texts[1:])
    assert texts[1:] == sorted(texts[1:])
    assert texts[-1].startswith(f"line {count:08d}")
    assert len(texts) < count // 10
    numbers = [record.number for record in delivery.records]
    assert numbers == sorted(set(numbers))
    assert abs(numbers[-1] - (count + 1)) <= 1
    lost = stream._follower
    assert abs(lost.dropped_lines - (count + 1 - len(texts))) <= 1
    assert 5 * MIB < lost.dropped_bytes < 6 * MIB


def test_a_jump_lets_the_cap_free_what_was_not_read(stream, delivery):
    lag(stream, delivery, 8 * MIB)
    assert stream.path.stat().st_blocks * 512 > 7 * MIB
    used_bytes = []
    delivery.looked = lambda: used_bytes.append(stream.path.stat().st_blocks * 512)
    delivery.gate.set()
    stream.finish(20)
    assert used_bytes
    assert all(used < 3 * MIB for used in used_bytes)


def test_what_was_lost_once_stays_lost(stream, delivery):
    lag(stream, delivery, 6 * MIB)
    delivery.gate.set()
    assert not stream.finish(20)
    os.write(stream.writer_fd, b"after\n")
    assert not stream.finish(20)
    assert delivery.records[-1].text == "after"


def test_a_little_behind_it_loses_nothing(stream, delivery):
    count = lag(stream, delivery, MIB)
    delivery.gate.set()
    assert stream.finish(20)
    assert len(delivery.records) == count + 1


def test_at_the_end_the_last_words_come_before_the_limit(stream, delivery, monkeypatch):
    """A lag that could be read in a minute cannot be read in the two seconds that there are."""
    monkeypatch.setattr(stream_module, "FINISH_BYTES_PER_SECOND", 0)
    count = lag(stream, delivery, MIB)
    complete = []
    finishing = threading.Thread(target=lambda: complete.append(stream.finish(20)))
    finishing.start()
    while not stream._end:
        time.sleep(0.001)
    delivery.gate.set()
    finishing.join(20)
    assert complete == [False]
    assert delivery.records[-1].text.startswith(f"line {count:08d}")
    assert len(delivery.records) < count


def test_a_hole_that_the_engine_made_is_no_loss(stream, delivery):
    delivery.gate.set()
    os.write(stream.writer_fd, b"before\n")
    os.ftruncate(stream.writer_fd, 1 << 40)
    os.write(stream.writer_fd, b"\nafter\n")
    assert stream.finish(20)
    assert [record.text for record in delivery.records] == ["before", "after"]


def test_a_file_that_the_engine_cut_off_is_incomplete_and_read_on(stream, delivery):
    delivery.gate.set()
    os.write(stream.writer_fd, b"before\nsecret\n")
    assert stream.finish(20)
    os.ftruncate(stream.writer_fd, 3)
    while not stream._follower.has_lost:
        time.sleep(0.001)
    os.write(stream.writer_fd, b"\nafter\n")
    assert not stream.finish(20)
    assert delivery.records[-1].text == "after"
