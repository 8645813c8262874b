"""``diagnose`` on logs of several runs, and with settings that the log does not show."""

from __future__ import annotations

import io
import json
import sys

import pytest

from tests.core.diagnose.sample_files import SAMPLES
from vllm_warden.cli.main import main

START = [
    "(APIServer pid=7) INFO 11-29 12:00:00 [api_utils.py:100] vLLM server version 0.17.1",
    "(APIServer pid=7) INFO 11-29 12:00:00 [api_utils.py:286] non-default args: {'port': 8000}",
]


def body(sample: str) -> list[str]:
    lines = (SAMPLES / sample / "composed.log").read_text().splitlines()
    return [line for line in lines if "non-default args" not in line and line]


CRASH, PORT = [*START, *body("sampler-warmup-oom")], [*START, *body("port-in-use")]
HEALTHY = [*START, "(APIServer pid=7) INFO:     Application startup complete."]


@pytest.fixture
def answer(capsys, monkeypatch):
    def run(lines: list[str], *words: str) -> tuple[int, str]:
        data = io.BytesIO("\n".join(lines).encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
        code = main(["diagnose", *words, "-"])
        return code, capsys.readouterr().out

    return run


def test_the_last_run_is_diagnosed_and_earlier_failures_are_named(answer) -> None:
    code, shown = answer([*CRASH, *PORT, *HEALTHY])

    assert code == 1
    assert "run 3 (lines" in shown
    assert "Nothing failed" in shown
    assert "Earlier runs in this log" in shown
    assert "run 1, lines 1-" in shown
    assert "out of GPU memory" in shown
    assert "the port is in use" in shown


def test_all_runs_are_one_object_each_in_order(answer) -> None:
    code, shown = answer([*CRASH, *PORT, *HEALTHY], "--all", "--json")
    found = [json.loads(line) for line in shown.splitlines()]

    assert code == 0
    assert [each["run"] for each in found] == [1, 2, 3]
    assert [each["failure"] for each in found] == ["gpu_out_of_memory", "port_in_use", "none"]
    assert found[0]["first_line"] == 1
    assert [one["last_line"] + 1 for one in found[:-1]] == [one["first_line"] for one in found[1:]]
    assert found[-1]["last_line"] == len(CRASH) + len(PORT) + len(HEALTHY)
    for one in found:
        lines = [proof["line"] for proof in one["evidence"]]
        assert all(one["first_line"] <= line <= one["last_line"] for line in lines)


def test_all_runs_for_a_person_are_apart_with_their_lines(answer) -> None:
    _, shown = answer([*CRASH, *PORT], "--all")

    assert shown.count(", run ") == 2
    assert f"run 2 (lines {len(CRASH) + 1}-{len(CRASH) + len(PORT)})" in shown


def test_a_single_run_has_number_one_and_no_ado(answer) -> None:
    _, shown = answer(CRASH)
    assert "run 1" not in shown
    _, shown = answer(CRASH, "--json")
    assert json.loads(shown)["run"] == 1


def test_settings_that_the_log_does_not_show_can_be_given(answer) -> None:
    _, shown = answer(CRASH, "--json", "--engine", "gpu-memory-utilization=0.95")
    changes = {one["setting"]: one for one in json.loads(shown)["advice"]["changes"]}

    assert changes["gpu_memory_utilization"]["from"] == 0.95


@pytest.mark.parametrize(
    "words",
    [["--engine", "max_num_seqs", "x"], [], ["x", "--unit", "y"], ["x", "--invocation", "-1"]],
)
def test_wrong_words_are_a_usage_error(words, capsys) -> None:
    assert main(["diagnose", *words]) == 2
    assert capsys.readouterr().out == ""
