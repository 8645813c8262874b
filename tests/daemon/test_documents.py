"""What is told of an incident, and how long the event loop is held up for it."""

import time

from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.daemon.documents import excerpt

EVIDENCE = Evidence(tuple(LogRecord(number, f"line {number}") for number in range(1, 6001)))


def test_an_excerpt_has_the_proof_with_lines_around_it_and_the_last_lines():
    lines = [line["line"] for line in excerpt(EVIDENCE, {3000})]
    around = [line for line in lines if line < 5000]
    assert 3000 in around
    assert around == list(range(around[0], around[-1] + 1))
    assert lines[len(around) :] == list(range(5961, 6001))


def test_an_excerpt_of_a_long_log_does_not_hold_up_the_loop():
    proof = set(range(500, 5500, 600))
    best_seconds = 1.0
    for _ in range(5):
        began = time.thread_time()
        excerpt(EVIDENCE, proof)
        best_seconds = min(best_seconds, time.thread_time() - began)
    assert best_seconds < 0.005
