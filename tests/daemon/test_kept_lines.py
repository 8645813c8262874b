"""What is kept of a log that is too long to be kept whole."""

from __future__ import annotations

import sys

import pytest

from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.diagnose.long_line import shortened
from vllm_warden.core.model import Failure, Phase
from vllm_warden.daemon.kept_lines import KeptLines, _is_error

ACCESS = 'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK'
START = ("INFO 11-29 16:00:09 [api_server.py:1457] Starting vLLM API server 0 on http://h:1",)
HEAD = "ERROR 11-29 16:20:00 [core.py:500] "
CRASH = (
    HEAD + "EngineCore encountered a fatal error.",
    HEAD + "Traceback (most recent call last):",
    HEAD + '  File "/opt/vllm/v1/worker/gpu_worker.py", line 1, in execute_model',
    HEAD + "RuntimeError: CUDA error: an illegal memory access was encountered",
)
CLIENT = "ERROR 11-29 16:20:01 [launcher.py:200] "
TOLD = (
    CLIENT + "Error in completion stream generator.",
    CLIENT + "Traceback (most recent call last):",
    *[CLIENT + '  File "/opt/vllm/v1/engine/async_llm.py", line 1, in generate'] * 24,
    CLIENT + "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
)


class Attempt:
    """Feeds lines as a backend does, numbered and timed."""

    def __init__(self) -> None:
        self.kept = KeptLines()
        self.number = 0
        self.at_seconds = 1000.0

    def say(self, *lines: str, times: int = 1, every_seconds: float = 0.0) -> None:
        for _ in range(times):
            self.at_seconds += every_seconds
            for line in lines:
                self.number += 1
                self.kept.take(LogRecord(self.number, line, at_seconds=self.at_seconds))

    def failure(self) -> Failure:
        records = self.kept.records()
        return diagnose(Evidence(records, was_ready=True, reached=Phase.SERVING)).failure


def test_the_cause_outlives_the_tracebacks_of_three_hundred_clients() -> None:
    attempt = Attempt()
    attempt.say(*START)
    attempt.say(ACCESS, times=1600)
    attempt.say(*CRASH)
    attempt.say(*TOLD, times=300)
    assert attempt.failure() is Failure.ILLEGAL_MEMORY_ACCESS
    assert attempt.kept.lost_lines > 0
    assert attempt.kept.lost_errors  # lines at the level of errors are missing


def test_errors_of_files_that_quote_requests_leave_the_evidence_complete() -> None:
    """A user makes as many of them as he likes, and none speaks for the engine."""
    attempt = Attempt()
    attempt.say(*START)
    attempt.say(*(line.replace("launcher.py", "serving_chat.py") for line in TOLD), times=100)
    attempt.say(*CRASH)
    attempt.say(ACCESS, times=7000)
    assert attempt.failure() is Failure.ILLEGAL_MEMORY_ACCESS
    assert not attempt.kept.lost_errors


def test_the_tracebacks_of_an_api_server_that_names_itself_leave_the_evidence_complete() -> None:
    attempt = Attempt()
    attempt.say(*START)
    attempt.say("(APIServer pid=7) " + ACCESS, times=1600)
    attempt.say(*("(EngineCore_DP0 pid=9) " + line for line in CRASH))
    attempt.say(*("(APIServer pid=7) " + line for line in TOLD), times=400)
    assert attempt.failure() is Failure.ILLEGAL_MEMORY_ACCESS
    assert not attempt.kept.lost_errors


@pytest.mark.parametrize("quiet_seconds", [10.0, 60.0])
def test_errors_that_the_engine_survived_do_not_take_the_place_of_the_last(
    quiet_seconds: float,
) -> None:
    attempt = Attempt()
    attempt.say(*START)
    attempt.say(*TOLD, times=200, every_seconds=quiet_seconds)
    attempt.say(ACCESS, times=6000, every_seconds=0.01)
    attempt.say(*CRASH, every_seconds=60.0)
    attempt.say(*TOLD, times=230)
    assert attempt.failure() is Failure.ILLEGAL_MEMORY_ACCESS


def test_old_errors_that_are_lost_leave_the_evidence_complete() -> None:
    attempt = Attempt()
    attempt.say(*START)
    attempt.say(*TOLD, times=800, every_seconds=5.0)
    attempt.say(ACCESS, times=6000, every_seconds=0.1)
    assert attempt.kept.lost_errors is False
    assert attempt.kept.lost_lines > 10_000


def test_an_error_lost_among_others_makes_the_evidence_incomplete() -> None:
    """A user who causes errors without end can hide a crash, but not unnoticed."""
    attempt = Attempt()
    attempt.say(ACCESS, times=1600)
    attempt.say(*TOLD, times=100)
    attempt.say(*CRASH)
    attempt.say(ACCESS, times=7000)
    assert attempt.kept.lost_errors


def test_lines_before_the_first_error_are_kept_with_it() -> None:
    attempt = Attempt()
    attempt.say(ACCESS, times=1600)
    attempt.say(*(f"INFO 11-29 16:20:00 [x.py:1] before {n}" for n in range(25)))
    attempt.say(HEAD + "EngineCore encountered a fatal error.")
    attempt.say(ACCESS, times=9000)
    texts = [record.text for record in attempt.kept.records()]
    assert [n for n in range(25) if f"INFO 11-29 16:20:00 [x.py:1] before {n}" in texts] == [
        *range(5, 25)
    ]


@pytest.mark.parametrize(
    "line",
    [
        "INFO 11-29 16:10:00 [logger.py:43] Received request x: prompt: 'ERROR Traceback (most'",
        '(APIServer pid=1) INFO: 127.0.0.1 - "GET /ERROR HTTP/1.1" 404',
        "INFO 11-29 16:10:00 [x.py:1] ERROR is a word",
        "(EngineCore_DP0 pid=2) ERROR 11-29 16:20:00 [dump_input.py:72] Dumping input data x",
    ],
)
def test_lines_that_only_speak_of_errors_do_not_count(line: str) -> None:
    attempt = Attempt()
    attempt.say(ACCESS, times=1600)
    attempt.say(line, times=9000)
    attempt.say(*CRASH)
    attempt.say(*TOLD, times=230)
    assert attempt.failure() is Failure.ILLEGAL_MEMORY_ACCESS


def test_a_json_error_whose_traceback_was_cut_makes_the_evidence_incomplete() -> None:
    attempt = Attempt()
    attempt.say(shortened(b'{"levelname": "ERROR", "message": "' + b"x" * 20_000))
    assert attempt.kept.lost_errors


@pytest.mark.parametrize("character", ["x", "\N{GRINNING FACE}"])
def test_long_lines_are_kept_within_32_mib_of_real_memory(character: str) -> None:
    attempt = Attempt()
    for number in range(9000):
        text = "ERROR 11-29 16:10:00 [x.py:1] " + f"{number}" + "y" * 16_200 + character
        attempt.say(text)
    taken = sum(sys.getsizeof(record.text) for record in attempt.kept.records())
    assert 8 << 20 < taken <= 32 << 20
    assert attempt.kept.lost_errors


@pytest.mark.parametrize(
    ("line", "is_error"),
    [
        (HEAD + "  File 'x.py'", True),
        (HEAD + "(EngineCore_0 pid=7)   File 'x.py'", True),
        (HEAD + "Received request a: prompt: 'x', params: 1", False),
        (HEAD + "(EngineCore_0 pid=7) Received request a: prompt: 'x', params: 1", False),
        (HEAD + "\x1b[0mReceived request a: prompt: 'x', params: 1", False),
        (HEAD.replace("core.py", "logger.py") + "no more", False),
        (HEAD.replace("ERROR", "INFO") + "Traceback (most recent call last):", False),
        (HEAD + "x\rGenerated response a: output: 'x'", False),
        ("x] Traceback (most recent call last):", True),
        ("x] ERROR", False),
    ],
)
def test_a_head_that_was_seen_before_does_not_speak_for_the_message(
    line: str, is_error: bool
) -> None:
    for _ in range(2):
        assert _is_error(line) is is_error
        _is_error(HEAD + "  File 'x.py'")
