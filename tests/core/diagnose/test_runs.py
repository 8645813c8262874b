"""Of several runs in one log the last one is diagnosed."""

from __future__ import annotations

from tests.core.diagnose.sample_files import last_run
from vllm_warden.core.diagnose.evidence import LogRecord

ARGS = "(APIServer pid=7) INFO 11-29 12:00:00 [api_utils.py:286] non-default args: {'port': 1}"
BANNER = "(APIServer pid=7) INFO 11-29 12:00:00 [api_utils.py:100] vLLM server version 0.32.0"


def records(*lines: str) -> list[LogRecord]:
    return [LogRecord(number, line) for number, line in enumerate(lines, 1)]


def test_one_run_is_the_whole_log() -> None:
    log = records(BANNER, ARGS, "x", "y")

    assert last_run(log) == (log, 1)


def test_the_last_of_two_runs_begins_with_its_banner_and_keeps_its_line_numbers() -> None:
    log = records(BANNER, ARGS, "x", "INFO:     Application shutdown complete.", BANNER, ARGS, "y")
    found, runs = last_run(log)

    assert runs == 2
    assert [record.number for record in found] == [5, 6, 7]


def test_a_refusal_by_argparse_is_a_run_of_its_own() -> None:
    log = records(ARGS, "x", "usage: vllm [-h]", "vllm: error: unrecognized arguments: --x")
    found, runs = last_run(log)

    assert runs == 2
    assert found[-1].number == 4
    assert found[0].number > 1


def test_a_prompt_cannot_begin_a_run() -> None:
    quoted = "(APIServer pid=7) INFO 11-29 12:00:00 [logger.py:39] Received request: prompt: '" + (
        "x" * 300 + ARGS
    )
    log = records(ARGS, "x", quoted, "y")

    assert last_run(log)[1] == 1
