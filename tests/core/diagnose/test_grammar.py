"""What one raw record says: process, rank, level, file and message, in every era."""
# ruff: noqa: E501 - log lines stand here as they are printed

from __future__ import annotations

import json
import time

import pytest

from vllm_warden.core.diagnose.grammar import LogLine, parse


def one(text: str) -> LogLine:
    lines = list(parse(7, text))
    assert len(lines) == 1
    return lines[0]


HEADER = "ERROR 11-29 14:41:09 [multiproc_executor.py:852] "


@pytest.mark.parametrize(
    ("tag", "process", "rank"),
    [
        ("(VllmWorker rank=3 pid=24979) ", "VllmWorker rank=3", 3),
        ("(VllmWorker TP1 pid=24979) ", "VllmWorker TP1", 1),
        ("(VllmWorker-0 pid=18167) ", "VllmWorker-0", 0),
        ("(Worker_TP1_EP5 pid=12) ", "Worker_TP1_EP5", 1),
        ("(Worker_DP1_PP0_TP3_EP7 pid=12) ", "Worker_DP1_PP0_TP3_EP7", 3),
        ("(Worker pid=12) ", "Worker", None),
        ("(EngineCore_DP0 pid=12) ", "EngineCore_DP0", None),
        ("(EngineCore pid=12) ", "EngineCore", None),
        ("(ApiServer_1 pid=12) ", "ApiServer_1", None),
        ("(RayWorkerWrapper pid=12, ip=192.0.2.3) ", "RayWorkerWrapper", None),
        ("", "", None),
    ],
)
def test_the_process_tag_of_every_era_is_read(tag: str, process: str, rank: int | None) -> None:
    line = one(tag + HEADER + "ValueError: no")
    assert (line.process, line.rank, line.level) == (process, rank, "ERROR")
    assert (line.file, line.message) == ("multiproc_executor.py", "ValueError: no")


def test_the_last_of_several_stacked_tags_counts() -> None:
    line = one("(APIServer pid=1) (EngineCore_DP0 pid=2) (Worker_TP1 pid=3) " + HEADER + "x")
    assert (line.process, line.pid) == ("Worker_TP1", 3)


def test_colours_are_removed() -> None:
    line = one("\x1b[0;36m(Worker_TP1 pid=3)\x1b[0;0m \x1b[31mERROR\x1b[0m \x1b[90m11-29 14:41:09\x1b[0m "
               "\x1b[90m[core.py:9]\x1b[0m   File x")  # fmt: skip
    assert (line.process, line.level, line.message) == ("Worker_TP1", "ERROR", "  File x")


@pytest.mark.parametrize("text", ["[w1] (Worker pid=3) " + HEADER + "x", "(Worker pid=3) [w1] " + HEADER + "x"])  # fmt: skip
def test_a_logging_prefix_of_the_operator_is_stepped_over(text: str) -> None:
    assert (one(text).process, one(text).message) == ("Worker", "x")


def test_what_only_looks_like_a_journals_prefix_stays() -> None:
    """What really is one was taken off before, from all lines of the log (``envelopes``)."""
    assert one("vllm-1  | Traceback").message == "vllm-1  | Traceback"


def test_a_progress_bar_is_split_at_its_carriage_returns() -> None:
    lines = list(parse(1, "Loading:  0%|  |\rLoading: 50%|# |\rLoading: 100%|##|\r"))
    assert [line.message for line in lines] == ["Loading:  0%|  |", "Loading: 50%|# |", "Loading: 100%|##|"]  # fmt: skip


def test_leading_blanks_stay_and_trailing_ones_go() -> None:
    assert one("(Worker pid=3) " + HEADER + "    raise e  \r").message == "    raise e"


def test_a_json_record_yields_the_lines_of_its_traceback() -> None:
    record = {
        "asctime": "2026-11-29 13:50:30,269", "levelname": "ERROR", "name": "vllm.v1.engine.core",
        "process": 542, "message": "EngineCore failed to start.",
        "exc_info": "Traceback (most recent call last):\nValueError: no",
        "vllm_process_name": "EngineCore",
    }  # fmt: skip
    lines = list(parse(1, json.dumps(record)))
    assert [line.message for line in lines] == [
        "EngineCore failed to start.", "Traceback (most recent call last):", "ValueError: no",
    ]  # fmt: skip
    assert {(line.process, line.pid, line.level, line.file) for line in lines} == {
        ("EngineCore", 542, "ERROR", "core.py")
    }


def test_text_that_only_looks_like_json_is_kept_as_text() -> None:
    text = '{"levelname": "ERROR", ' + "[" * 2000
    assert one(text).message == text


def test_a_header_quoted_inside_a_message_is_not_the_header() -> None:
    line = one("(APIServer pid=1) INFO 11-29 14:41:09 [logger.py:40] prompt: '" + HEADER + "x'")
    assert (line.level, line.file) == ("INFO", "logger.py")


def test_uvicorn_lines_have_a_level() -> None:
    line = one("(APIServer pid=1) INFO:     Application startup complete.")
    assert (line.level, line.message) == ("INFO", "Application startup complete.")


HOSTILE = [
    "(" * 100_000,
    "(Worker pid=" * 8_000,
    "ERROR 11-29 14:41:09 [" * 4_500,
    "\x1b[" * 50_000,
    "\x1b[0m" * 25_000,
    "\r" * 100_000,
    '{"levelname": "ERROR", "message": "' + "x" * 100_000,
    "A." * 50_000,
    "File " * 20_000,
    " " * 100_000 + "x",
    "Worker failed with error '" * 4_000,
    "max seq len (" * 8_000,
    "Process 1 has 1.00 GiB memory in use. " * 2_600,
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " * 1_600,
]


@pytest.mark.parametrize(
    "text", HOSTILE, ids=[text[:24].strip() or repr(text[:4]) for text in HOSTILE]
)
def test_a_hostile_line_of_100_kb_is_diagnosed_in_linear_time(text: str) -> None:
    from tests.core.diagnose.sample_files import records
    from vllm_warden.core.diagnose.asked import asked_settings
    from vllm_warden.core.diagnose.classify import diagnose
    from vllm_warden.core.diagnose.evidence import Evidence
    from vllm_warden.core.diagnose.phases import PhaseTracker

    lines = records(
        text, "(Worker pid=3) " + HEADER + "ValueError: " + text, "non-default args: {" + text
    )
    begin = time.process_time()
    diagnose(Evidence(lines))
    asked_settings(lines)
    PhaseTracker().feed(text)
    assert time.process_time() - begin < 0.5
