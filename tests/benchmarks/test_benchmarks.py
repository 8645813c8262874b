"""The parts of the benchmarks that can be wrong without anybody noticing."""

from benchmarks.crash import CAPTURED, LINES, long_crash
from benchmarks.table import Row, missing, render
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.model import Failure


def test_the_long_crash_is_one_of_many_ranks_and_of_the_promised_length():
    lines = long_crash(CAPTURED.read_text()).splitlines()
    assert len(lines) == LINES
    found = diagnose(Evidence(tuple(LogRecord(at, line) for at, line in enumerate(lines, 1))))
    assert found.failure is Failure.GPU_OUT_OF_MEMORY
    assert {1, 2, 7} <= set(found.ranks)


def test_the_median_decides_and_over_budget_is_said_plainly():
    assert Row("a", "ms", (1.0, 2.0, 900.0), 50.0).verdict == "ok"
    assert Row("a", "ms", (1.0, 51.0, 52.0), 50.0).verdict == "over budget"
    assert Row("peer", "ms", (1000.0,)).verdict == "-"


def test_a_row_without_a_measurement_says_why():
    text = render([missing("kill to exec, circus", "ms", None, "cannot be installed here: no net")])
    assert "not measured" in text
    assert "cannot be installed here: no net" in text
