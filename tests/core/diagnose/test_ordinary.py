"""Passing over ordinary lines changes no verdict, and hides nothing that is not ordinary."""

from __future__ import annotations

import random

import pytest

from tests.core.diagnose.test_envelopes import LOGS, essence, lines_of
from tests.serving_log import serving_lines
from vllm_warden.core.diagnose.asked import asked_settings
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.envelopes.block import blocks
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.diagnose.ordinary import ALWAYS_TAKEN, extraordinary
from vllm_warden.core.diagnose.redact import redact
from vllm_warden.core.diagnose.whole_log import diagnosed_runs

SERVING = [line for number in range(60) for line in serving_lines(number)]
HUNG = (
    "(APIServer pid=31215) INFO 11-29 12:00:01 [loggers.py:248] Engine 000: Avg prompt throughput:"
    " 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs"
)
WAITS = (
    "(EngineCore_DP0 pid=9) INFO 11-29 12:00:01 [shm_broadcast.py:466] No available shared memory"
    " broadcast block found in 60 seconds."
)


def taken(lines: list[str]) -> list[tuple[int, str]]:
    data = "".join(f"{line}\n" for line in lines).encode()
    return [(number, line.decode()) for number, line, _ in extraordinary(blocks([data]))]


def with_service(lines: list[str], rng: random.Random) -> list[str]:
    """The log with hours of service between its lines, also within its tracebacks."""
    found: list[str] = []
    for line in lines:
        if rng.random() < 0.1:
            begin = rng.randrange(len(SERVING))
            found += (SERVING[begin:] + SERVING)[: rng.choice((1, 2, 5, 300))]
        found.append(line)
    return found


@pytest.mark.parametrize("log", LOGS)
def test_the_verdict_is_that_of_reading_every_line(log: str) -> None:
    for seed in range(3):
        lines = with_service(list(lines_of(log)), random.Random(seed))
        records = tuple(LogRecord(number, redact(line)) for number, line in enumerate(lines, 1))
        every = diagnose(Evidence(records, settings=asked_settings(records)))
        data = "".join(f"{line}\n" for line in lines).encode()
        runs = list(diagnosed_runs([data[at : at + 4096] for at in range(0, len(data), 4096)]))

        assert len(runs) == 1
        assert essence(runs[0].diagnosis) == essence(every)
        assert [each.line for each in runs[0].diagnosis.evidence] == [
            each.line for each in every.evidence
        ]


def test_a_busy_engines_lines_are_passed_over_and_numbers_stay_right() -> None:
    found = taken([*SERVING, *SERVING, "Traceback (most recent call last):", *SERVING, "end"])

    assert len(found) < ALWAYS_TAKEN + 20
    assert (2 * len(SERVING) + 1, "Traceback (most recent call last):") in found
    assert found[-1] == (3 * len(SERVING) + 2, "end")
    assert (2 * len(SERVING), SERVING[-1]) in found


def test_what_ends_a_traceback_or_quotation_is_given_after_each() -> None:
    """The first line of each form behind whatever is not ordinary, and the last before it."""
    access, added = SERVING[0], next(line for line in SERVING if "Added" in line)
    service = [access, access, added, added, access, added]
    found = taken([*SERVING, "ValueError: x", *service, "ValueError: x", *service, "end"])
    texts = [text for _, text in found]
    behind = texts[texts.index("ValueError: x") :]

    assert behind == [
        *("ValueError: x", access, added, added),
        *("ValueError: x", access, added, added, "end"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        HUNG,
        WAITS,
        '(APIServer pid=1) INFO:     1.2.3.4:5 - "POST /v1/completions HTTP/1.1" 500 Internal',
        "(APIServer pid=1) INFO 11-29 12:00:00 [logger.py:43] Received request a: prompt: 'open",
        "(APIServer pid=1) INFO 11-29 12:00:00 [launcher.py:43] Route: /health, Methods: GET",
        "(EngineCore pid=1) ERROR 11-29 12:00:00 [core.py:1] Avg prompt throughput: 1 tokens/s",
    ],
)
def test_what_may_matter_is_never_passed_over(line: str) -> None:
    found = taken([*SERVING, line, line, line, *SERVING])

    assert [text for _, text in found].count(line) == 3


def test_an_engine_that_makes_tokens_again_is_not_silent() -> None:
    rates = next(line for line in SERVING if "Avg generation" in line)
    start = list(lines_of("0.13.0/15-sigkill-engine-serving"))
    at = next(i for i, line in enumerate(start) if "Application startup complete" in line) + 1
    hang = [*start[:at], *SERVING, HUNG, *[WAITS] * 8]
    texts = ("".join(f"{line}\n" for line in log) for log in (hang, [*hang, *SERVING, rates]))
    hung, healed = (list(diagnosed_runs([text.encode()]))[-1].diagnosis.failure for text in texts)

    assert (hung, healed) == ("engine_stalled", "none")
