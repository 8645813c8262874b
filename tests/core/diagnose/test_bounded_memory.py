"""However much a log holds, and whoever wrote it, reading it takes bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord

HEAD = "(EngineCore_DP0 pid=2) ERROR 11-29 16:20:01 [core.py:857] "
BEGIN = "Traceback (most recent call last):"
KINDS: dict[str, Callable[[int], str]] = {
    "bare exceptions": lambda number: f"ValueError: number {number} is bad",
    "recorded exceptions": lambda number: f"{HEAD}ValueError: number {number} is bad",
    "errors": lambda number: f"{HEAD}something {number}",
    "process tags": lambda number: (
        f"(Worker_TP{number} pid={number}) ERROR 11-29 16:20:01 [core.py:857] {BEGIN}"
    ),
    "call stacks": lambda number: (
        f"(Worker_TP{number} pid={number}) ERROR 11-29 16:20:01 "
        f'[core.py:857]   File "/vllm/v1/worker/gpu_worker.py", line {number}, in load_model'
    ),
    "source lines": lambda number: (
        f"(Worker_TP{number} pid={number}) ERROR 11-29 16:20:01 "
        "[core.py:857]     self.model_runner.load_model(x)"
    ),
    "kills": lambda number: f"Killed process {number}: Out of memory: Killed process {number}",
    "servers": lambda number: f"(APIServer pid={number}) INFO:     Application startup complete.",
}


def peak_bytes(line: Callable[[int], str], count: int) -> int:
    def records() -> Iterator[LogRecord]:
        return (LogRecord(number, line(number)) for number in range(1, count + 1))

    tracemalloc.start()
    diagnose(Evidence(()), records())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_three_times_the_lines_take_no_more_memory(kind: str) -> None:
    few, many = (peak_bytes(KINDS[kind], count) for count in (6_000, 18_000))
    assert many < 1.3 * few + (1 << 20)
