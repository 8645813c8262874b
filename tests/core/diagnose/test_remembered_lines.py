"""What a line of a traceback tells is remembered for the other ranks, within bounds."""

from __future__ import annotations

from vllm_warden.core.diagnose import tracebacks
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord

HEAD = "(Worker_TP{rank} pid=1{rank}) ERROR 11-29 15:22:23 [multiproc_executor.py:487] "
CACHES = (tracebacks._known_frame, tracebacks._known_introduced, tracebacks._known_calls)
CRASH = (
    "Traceback (most recent call last):",
    '  File "/opt/vllm/v1/worker/gpu_worker.py", line 1, in load_model',
    "    self.model_runner.load_model({})",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU {rank} has a",
)


def crash(*lines: str, ranks: int = 1) -> Evidence:
    printed = [HEAD.format(rank=rank) + line for rank in range(ranks) for line in lines]
    return Evidence(tuple(LogRecord(number, text) for number, text in enumerate(printed, 1)))


def test_the_lines_of_a_second_rank_are_known_and_tell_the_same() -> None:
    first = diagnose(crash(*CRASH))
    before = [cache.cache_info() for cache in CACHES]
    both = diagnose(crash(*CRASH, ranks=2))
    for cache, known in zip(CACHES, before, strict=True):
        assert cache.cache_info().misses == known.misses
        assert cache.cache_info().hits > known.hits
    assert (both.failure, both.phase, both.site) == (first.failure, first.phase, first.site)
    assert both.ranks == (0, 1)


def test_long_lines_are_not_remembered() -> None:
    long = "x" * 300
    before = [cache.cache_info().currsize for cache in CACHES]
    diagnose(
        crash(
            "Traceback (most recent call last):",
            f'  File "/opt/{long}.py", line 1, in load_model',
            f"    self.load_model({long})",
            f"ValueError: {long}",
        )
    )
    assert [cache.cache_info().currsize for cache in CACHES] == before
