"""One contract for time."""

import pytest

from tests.fakes.clock import FakeClock
from vllm_warden.adapters.clock import SystemClock


@pytest.fixture(params=[FakeClock, SystemClock])
def clock(request):
    return request.param()


def test_time_never_goes_back(clock):
    first = clock.now_seconds()
    assert clock.now_seconds() >= first >= 0


def test_wall_time_is_of_this_century(clock):
    assert 1_700_000_000 < clock.wall_seconds() < 4_100_000_000


def test_boot_id_stays_and_looks_like_a_uuid(clock):
    assert clock.boot_id() == clock.boot_id()
    assert len(clock.boot_id()) == 36


def test_jitter_is_a_fraction(clock):
    assert all(0 <= clock.jitter_fraction() < 1 for _ in range(100))
