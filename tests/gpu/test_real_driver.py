"""The NVML adapter against the real driver."""

import itertools
import time

import pytest

pytestmark = pytest.mark.gpu

GIB = 1 << 30


def until(reader, condition, seconds=30):
    """Read until the condition holds; the driver may take a while to take memory back."""
    deadline = time.monotonic() + seconds
    while True:
        answer = reader.read()["gpus"][0]
        if condition(answer):
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


def test_every_gpu_has_a_name_a_uuid_and_sane_memory(reader):
    for gpu in reader.read()["gpus"]:
        assert gpu["error"] is None
        assert gpu["uuid"].startswith("GPU-")
        assert gpu["name"]
        assert 4 * GIB < gpu["total"] < 1024 * GIB
        assert 0 <= gpu["free"] <= gpu["total"]


def test_memory_of_a_child_is_seen_named_and_comes_back_when_it_is_killed(reader, holder):
    before = reader.read()["gpus"][0]["free"]
    child = holder(2 * GIB)
    child.allocate()
    held = until(reader, lambda gpu: before - gpu["free"] >= 2 * GIB)
    if held["holders"]:  # a container with its own pid namespace hides them
        assert any(used is None or used >= 2 * GIB for used, _ in held["holders"].values())
    child.kill()
    after = until(reader, lambda gpu: before - gpu["free"] < GIB // 4)
    assert str(child.pid) not in after["holders"]


def test_a_timeline_shows_each_step_of_an_allocation(reader, holder):
    child = holder(GIB, GIB, GIB)
    used = [reader.read()["gpus"][0]["free"]]
    for _ in range(3):
        child.allocate()
        used.append(reader.read()["gpus"][0]["free"])
    steps = [first - second for first, second in itertools.pairwise(used)]
    assert all(step >= GIB for step in steps), steps


def test_a_reading_takes_milliseconds(reader):
    times = []
    for _ in range(20):
        began = time.perf_counter()
        reader.read()
        times.append(time.perf_counter() - began)
    assert sorted(times)[10] < 0.05
