"""Calls that may hang run in threads that the end of the process does not wait for."""

import subprocess
import sys
import threading
import time

import pytest

from vllm_warden.adapters.daemon_threads import DaemonThreads


@pytest.fixture
def threads():
    made = DaemonThreads("test", threads=2)
    yield made
    made.shutdown(cancel_futures=True)


def test_results_and_errors_come_back(threads):
    assert threads.submit(divmod, 7, 2).result(5) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 7, 0).result(5)


def test_no_more_run_at_a_time_than_there_are_threads_and_the_rest_waits(threads):
    gate = threading.Event()
    both = threading.Barrier(3)

    def meet():
        both.wait(5)
        return gate.wait(5)

    meeting = [threads.submit(meet) for _ in range(2)]
    both.wait(5)
    third = threads.submit(threading.current_thread)
    assert not third.running()
    gate.set()
    assert [one.result(5) for one in meeting] == [True, True]
    assert third.result(5).daemon


def test_one_thread_is_enough_for_calls_that_do_not_overlap(threads):
    names = set()
    for _ in range(20):
        names.add(threads.submit(threading.get_ident).result(5))
        while threads._unfinished:
            time.sleep(0.001)
    assert len(names) == 1


def test_a_call_given_up_before_it_began_is_not_made(threads):
    gate = threading.Event()
    stuck = [threads.submit(gate.wait, 5) for _ in range(2)]
    called = threading.Event()
    waiting = threads.submit(called.set)
    assert waiting.cancel()
    gate.set()
    assert all(one.result(5) for one in stuck)
    assert threads.submit(called.is_set).result(5) is False


def test_a_closed_one_takes_no_calls_and_finishes_what_it_has():
    threads = DaemonThreads("closing")
    gate = threading.Event()
    first, second = threads.submit(gate.wait, 5), threads.submit(divmod, 7, 2)
    threads.shutdown()
    with pytest.raises(RuntimeError, match="closed"):
        threads.submit(divmod, 1, 1)
    gate.set()
    assert first.result(5)
    assert second.result(5) == (3, 1)


def test_closing_can_cancel_what_has_not_begun():
    threads = DaemonThreads("closing")
    gate = threading.Event()
    first, second = threads.submit(gate.wait, 5), threads.submit(divmod, 7, 2)
    while not first.running():
        time.sleep(0.001)
    threads.shutdown(cancel_futures=True)
    assert second.cancelled()
    gate.set()
    assert first.result(5)


STUCK = """
import asyncio, sys, threading
sys.path[:0] = %r
from vllm_warden.daemon.threads import Lane, LateError
async def main():
    lane = Lane("NVML", 0.05)
    try:
        await lane.call(threading.Event().wait)
    except LateError as late:
        print(late)
    lane.close()
asyncio.run(main())
"""


def test_a_lane_stuck_for_ever_does_not_keep_the_process_from_ending():
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", STUCK % sys.path],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert "did not answer" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 10
