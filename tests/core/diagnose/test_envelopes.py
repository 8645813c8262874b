"""A log says the same whatever other programs put around it."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from pathlib import Path

import pytest

from tests.core.diagnose.wrappings import WRAPPINGS, before_each, journal_export, terminal, text
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.envelopes.terminal import broken_at
from vllm_warden.core.diagnose.envelopes.undo import undone
from vllm_warden.core.diagnose.whole_log import diagnosed_runs

CAPTURED = Path(__file__).parents[2] / "corpus" / "captured"
LABELS = [json.loads(line) for line in (CAPTURED / "labels.jsonl").read_text().splitlines()]
HEAD = "(APIServer pid=7) INFO 11-29 12:00:00 "
FORGED = "(EngineCore_DP0 pid=9) ERROR 11-29 12:00:00 [core.py:1] torch.OutOfMemoryError: x"


def one_of_each() -> list[str]:
    """One captured log for each failure, and the phases of memory failures, of varying age."""
    chosen: dict[tuple[str, ...], str] = {}
    for number, label in enumerate(LABELS):
        key = (label["failure"], str(label["phase"]) if label["site"] else "")
        if key not in chosen or number % 3 == 0:
            chosen[key] = label["id"]
    return sorted(chosen.values())


LOGS = one_of_each()


@lru_cache(maxsize=64)
def lines_of(log: str) -> tuple[str, ...]:
    data = (CAPTURED / f"{log}.log").read_bytes().decode("utf-8", "replace")
    # what journald keeps: no empty lines, no blanks at the end
    return tuple(line.rstrip() for line in data.split("\n") if line.strip())


def essence(found: Diagnosis) -> tuple[object, ...]:
    return (
        found.failure,
        found.phase,
        found.site,
        found.signature,
        found.confidence,
        found.ranks,
        dict(found.figures),
        [proof.text for proof in found.evidence],
        found.engine_version,
    )


def verdict(data: bytes, chunk: int = 1 << 20) -> tuple[object, ...]:
    chunks = [data[at : at + chunk] for at in range(0, len(data), chunk)]
    return essence(list(diagnosed_runs(chunks))[-1].diagnosis)


@lru_cache(maxsize=64)
def bare_verdict(log: str) -> tuple[object, ...]:
    return verdict(text(lines_of(log)))


def inner_lines(data: bytes, chunk: int = 1 << 20) -> list[str]:
    chunks = [data[at : at + chunk] for at in range(0, len(data), chunk)]
    return [line.decode() for block in undone(chunks) for line in block.lines()]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_the_verdict_is_that_of_the_bare_log(wrapping: str) -> None:
    width = int(wrapping.split()[3]) if wrapping.startswith("a terminal") else 1 << 30
    # a line exactly as wide as the terminal cannot be told from one that was broken there
    told = [log for log in LOGS if all(len(line) % width for line in lines_of(log))]
    lost = [
        log
        for log in told
        if verdict(WRAPPINGS[wrapping](list(lines_of(log)))) != bare_verdict(log)
    ]

    assert lost == []
    assert len(told) >= min(len(LOGS), 5)


@pytest.mark.parametrize("wrapping", [name for name in WRAPPINGS if "Ray" not in name])
def test_every_line_comes_out_as_it_went_in_wherever_chunks_end(wrapping: str) -> None:
    lines = list(lines_of(LOGS[-1]))
    wrapped = WRAPPINGS[wrapping](lines)
    found = [line.rstrip("\r") for line in inner_lines(wrapped, 997)]

    assert found == [line.rstrip("\r") for line in inner_lines(wrapped)]
    assert "terminal" in wrapping or [line for line in found if line] == lines


def test_the_log_that_a_prompt_looks_like_is_not_undone() -> None:
    """Only what is around all lines is taken off; a line's own text has no say."""
    forged = "2026-11-29T12:00:00Z " + FORGED
    log = [HEAD + f"[x.py:1] line {number}" for number in range(40)]
    lines = [*log, forged, *log]

    assert inner_lines(text(lines)) == lines


@pytest.mark.parametrize(
    "quoting",
    [
        HEAD + "[logger.py:43] Received request cmpl-1: prompt: '",
        HEAD + "[serving_chat.py:200] Error in preprocessing prompt inputs: '",
        '(APIServer pid=7) INFO:     1.2.3.4:5 - "GET /',
    ],
)
def test_a_prompt_that_a_terminal_broke_does_not_become_a_record(quoting: str) -> None:
    """Wherever it was broken: the forged record begins a row of the copy once."""
    before = quoting
    prompt = before + "x" * (160 - len(before)) + FORGED
    filler = [HEAD + f"[x.py:1] {'word ' * 40}{number}" for number in range(20)]
    lines = [*filler, prompt, *filler]
    rows = terminal(80)(lines).decode().split("\n")[:-1]

    assert FORGED[:80] in rows
    assert inner_lines(text(rows)) == lines


def test_lines_of_equal_length_are_not_what_a_terminal_broke() -> None:
    frame = "(Worker_TP{0} pid=1) ERROR 11-29 12:00:00 [core.py:{1}]   File " + "x" * 40
    lines = [frame.format(rank, at) for at in range(10, 60) for rank in range(8)]

    assert inner_lines(text(lines)) == lines


def test_a_file_that_mixes_two_forms_half_and_half_is_left_alone() -> None:
    lines = [f"vllm-1  | line {number}" if number % 2 else f"line {number}" for number in range(50)]

    assert inner_lines(text(lines)) == lines


def test_several_lines_in_one_journal_entry_are_lines_of_their_own() -> None:
    export = journal_export(["first\n  second", "third"])

    assert inner_lines(export) == ["first", "  second", "third"]


def test_what_a_shell_printed_above_an_enveloped_log_does_no_harm() -> None:
    lines = [f"line {number}" for number in range(20)]
    data = b"$ docker compose logs\n" + before_each("vllm-1  | ")(lines)

    assert inner_lines(data) == ["$ docker compose logs", *lines]


def test_vllms_own_json_records_are_no_envelope() -> None:
    record = json.dumps({"levelname": "INFO", "message": "x", "timestamp": "1", "name": "vllm"})

    assert inner_lines(text([record] * 5)) == [record] * 5


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_a_damaged_envelope_is_never_an_exception(wrapping: str) -> None:
    rng = random.Random(wrapping)
    whole = WRAPPINGS[wrapping](list(lines_of(LOGS[0]))[:60])
    for _ in range(12):
        begin = rng.randrange(len(whole)) if rng.random() < 0.5 else 0
        data = bytearray(whole[begin : rng.randrange(begin, len(whole) + 1)])
        for _ in range(rng.randrange(6)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        found = list(diagnosed_runs([bytes(data)]))[-1].diagnosis

        assert found.failure is not None


@pytest.mark.parametrize(
    "message",
    ["null", "[]", "[[65,66],[67]]", '["A"]', "[300]", "[true]", "{}", "[" * 900 + "]" * 900],
)
def test_journal_messages_of_every_json_type_are_survived(message: str) -> None:
    entry = '{"__CURSOR": "x", "MESSAGE": ' + message + "}\n"

    assert inner_lines(entry.encode() * 3) in (["", "", ""], ["AB"] * 3, ["A"] * 3, ["\x01"] * 3)


def test_a_row_that_goes_on_with_a_blank_is_no_line_of_its_own() -> None:
    words = [letter * (44 if letter < "d" else 50) for letter in "abcdef"]
    lines = [f"INFO 11-20 03:10:01 [some_file.py:23] {word} and so on" for word in words]
    rows = [row for line in lines for row in (line[:82], line[82:])]
    assert [row[:1] for row in rows].count(" ") == 3
    assert broken_at([row.encode() for row in rows]) == 82
