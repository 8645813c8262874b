"""``python -m benchmarks.diagnosis_speed``: how fast logs are diagnosed, on one core.

Ordinary serving logs as the API servers of several versions print them, in blocks as the command
reads them; and the burst that a tensor-parallel engine of eight ranks prints when it dies. CPU time
of this process, best of some rounds: others may use the machine.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from vllm_warden.core.diagnose.whole_log import diagnosed_runs
from vllm_warden.core.model import Failure

CAPTURED = Path(__file__).parents[1] / "tests/corpus/captured"
DEATH = CAPTURED / "0.27.1" / "39-oom-serving-tp2-rank0.log"
CHUNK_BYTES = 1 << 20
SERVING_BYTES = 64 << 20
MEGABYTES_PER_SECOND_MIN = 100.0
RANKS = 8
BURST_LINES = 2000
BURST_SECONDS_MAX = 0.050
ROUNDS = 5
_TIME = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class Measured:
    """One row: what was diagnosed, the figure, and the least or most it may be."""

    what: str
    figure: str
    limit: str
    met: bool


def measure(serving_bytes: int = SERVING_BYTES, rounds: int = ROUNDS) -> list[Measured]:
    """All rows, in order."""
    rows = []
    for name, tag in (("one process", ""), ("tagged processes", "(APIServer pid=459) ")):
        data = serving_log(tag, serving_bytes)
        best = min(seconds(lambda data=data: diagnose(data)) for _ in range(rounds))  # type: ignore[misc]
        rate = len(data) / best / 1e6
        rows.append(
            Measured(
                f"ordinary serving log, {name}",
                f"{rate:.0f} MB/s",
                f">= {MEGABYTES_PER_SECOND_MIN:.0f} MB/s",
                rate >= MEGABYTES_PER_SECOND_MIN,
            )
        )
    burst = death_of_eight_ranks()
    best = min(seconds(lambda: diagnose(burst)) for _ in range(4 * rounds))
    rows.append(
        Measured(
            f"death of {RANKS} ranks, {burst.count(bytes([10]))} lines",
            f"{1000 * best:.1f} ms",
            f"< {1000 * BURST_SECONDS_MAX:.0f} ms",
            best < BURST_SECONDS_MAX,
        )
    )
    return rows


def diagnose(data: bytes) -> Failure:
    """As the command does it: block by block, every run; the last one's failure."""
    chunks = (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))
    *_, last = diagnosed_runs(chunks)
    return last.diagnosis.failure


def seconds(work: Callable[[], Failure]) -> float:
    """CPU time of one round. Raises where the death at the end was not found."""
    begin = time.process_time()
    found = work()
    took = time.process_time() - begin
    if found is not Failure.GPU_OUT_OF_MEMORY:
        raise RuntimeError(f"cannot measure: the diagnosis says {found.value}")
    return took


def serving_log(tag: str, size_bytes: int) -> bytes:
    """Start, so much of service, and death."""
    start, death = _parts()
    if not tag:  # an engine core in threads of one process tags nothing
        untagged = re.compile(r"^\((?:APIServer|EngineCore) pid=\d+\) ")
        start, death = ([untagged.sub("", line) for line in part] for part in (start, death))
    hour = "".join(f"{line}\n" for number in range(3600) for line in _second(tag, number)).encode()
    served = hour * (size_bytes // len(hour) + 1)
    return b"".join([_lines(start), served, _lines(death)])


def death_of_eight_ranks() -> bytes:
    """A captured death, its workers' tracebacks printed by all ranks at once."""
    start, death = _parts()
    workers = [line for line in death if line.startswith("(Worker_TP0")]
    others = [line for line in death if not line.startswith("(Worker_TP")]
    burst = [
        re.sub(r"Worker_TP0 pid=\d+", f"Worker_TP{rank} pid={500 + rank}", line)
        for line in workers
        for rank in range(RANKS)
    ]
    while len(burst) < BURST_LINES:
        burst += [_TIME.sub("11-29 15:02:45", line) for line in burst]
    return _lines([*start, *burst[: BURST_LINES - len(others)], *others])


def _parts() -> tuple[list[str], list[str]]:
    lines = DEATH.read_text(encoding="utf-8").split("\n")
    up = next(at for at, line in enumerate(lines) if "Application startup complete" in line) + 1
    return lines[:up], lines[up:]


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines if line).encode()


def _second(tag: str, number: int) -> Iterator[str]:
    at = f"INFO 11-29 16:{number // 60:02d}:{number % 60:02d}"
    for request in range(3):
        client = f"10.0.{request}.7:{40000 + number}"
        yield f'{tag}INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        yield f'{tag}INFO:     {client} - "GET /metrics HTTP/1.1" 200 OK'
    if number % 10 == 0:
        yield (
            f"{tag}{at} [loggers.py:248] Engine 000: Avg prompt throughput: {number}.4 tokens/s, "
            f"Avg generation throughput: {1 + number}.9 tokens/s, Running: 4 reqs, "
            "Waiting: 0 reqs, GPU KV cache usage: 12.9%, Prefix cache hit rate: 41.0%"
        )


def main() -> int:
    rows = measure()
    print("| speed, one core | measured | limit |\n|---|---|---|")
    for row in rows:
        print(f"| {row.what} | {row.figure} | {row.limit}{'' if row.met else ' MISSED'} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
