"""The benchmark of speed measures logs whose death is found, however they are read."""

from __future__ import annotations

from benchmarks.diagnosis_speed import BURST_LINES, death_of_eight_ranks, diagnose, measure
from vllm_warden.core.model import Failure


def test_each_row_has_a_figure_and_a_limit() -> None:
    rows = measure(serving_bytes=1 << 20, rounds=1)
    assert [row.figure.split()[1] for row in rows] == ["MB/s", "MB/s", "ms"]
    assert all(row.limit for row in rows)


def test_the_burst_is_of_eight_ranks_and_is_diagnosed() -> None:
    burst = death_of_eight_ranks()
    assert burst.count(b"\n") >= BURST_LINES
    assert all(f"(Worker_TP{rank} ".encode() in burst for rank in range(8))
    assert diagnose(burst) is Failure.GPU_OUT_OF_MEMORY
