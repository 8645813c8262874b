"""The command ``vllm-warden diagnose`` on files and standard input."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass

import pytest

from tests.core.diagnose.sample_files import SAMPLES
from vllm_warden.cli.main import main

OOM = SAMPLES / "sampler-warmup-oom" / "composed.log"
FINE = SAMPLES / "none" / "advice-lines-of-a-healthy-start.log"


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys, monkeypatch):
    def run_with(*words: object, text: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        code = main(["diagnose", *map(str, words)])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run_with


def test_json_is_one_object_a_line_in_the_order_of_the_files(run) -> None:
    done = run("--json", FINE, OOM)
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0
    assert next(iter(first)) == "file"
    assert (first["file"], first["failure"], first["advice"]) == (str(FINE), "none", None)
    assert (second["phase"], second["site"]) == ("warmup", "sampler")
    assert second["figures"]["dummy_requests"] == 1024
    assert second["advice"]["remedy"]


def test_no_failure_is_exit_code_1(run) -> None:
    assert run(FINE).returncode == 1


@pytest.mark.parametrize("text", [b"", bytes(range(256)) * 50, b"hello\nworld\n"])
def test_a_file_without_any_record_of_vllms_is_not_called_healthy(run, text) -> None:
    done = run("-", text=text)
    assert done.returncode == 1
    assert "no vLLM record recognised" in done.stdout
    assert "nothing failed" not in done.stdout.lower()
    document = json.loads(run("--json", "-", text=text).stdout)
    assert (document["failure"], document["confidence"]) == ("none", "likely")
    healthy = json.loads(run("--json", FINE).stdout)
    assert healthy["confidence"] == "certain"


def test_people_see_whole_numbers_and_lines_that_fit(run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for sample in sorted(SAMPLES.glob("*/composed.log")):
        text = run(sample).stdout
        changes = [line for line in text.splitlines() if " -> " in line]
        assert not [line for line in changes if ".0" in line.replace("0.0", "")]
        long = [line for line in text.splitlines() if len(line) > 80 and "/" not in line]
        assert not long


def test_standard_input_is_read_for_a_dash(run) -> None:
    done = run("--json", "-", text=OOM.read_bytes())
    assert json.loads(done.stdout)["signature"] == "sampler-warmup-oom"


def test_an_unreadable_file_is_one_clear_error(run, tmp_path) -> None:
    done = run(tmp_path / "absent.log")
    assert done.returncode == 2
    assert "cannot read" in done.stderr
    assert "Traceback" not in done.stderr


def test_people_see_failure_proof_and_advice(run) -> None:
    text = run(OOM).stdout
    assert "sampler" in text
    assert "dummy_requests = 1024" in text
    titles = ["Proof", "Figures", "What helps", "Next"]
    assert [line for line in text.splitlines() if line in titles] == titles


def test_bytes_that_are_no_text_are_survived(run) -> None:
    assert run("-", text=bytes(range(256)) * 50).returncode == 1


def test_secrets_of_a_log_are_not_shown(run) -> None:
    text = OOM.read_bytes().replace(b"with 1024 dummy", b"hf_abcdefghijklmnop with 1024 dummy")
    assert "hf_abcdefghijklmnop" not in run("-", text=text).stdout


def test_what_is_advised_with_its_value_is_not_offered_again_without(run) -> None:
    oom = SAMPLES.parents[0] / "corpus" / "067.log"
    offered = run(oom).stdout.partition("What helps")[2].partition("What does not help")[0]
    assert "gpu_memory_utilization: 0.92 -> " in offered
    assert offered.count("gpu_memory_utilization") == 1
    assert "or capture fewer CUDA graphs" in offered


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("max_num_seq=256", "do you mean max_num_seqs?"),
        ("gpu-memory-utilisation=0.9", "do you mean"),
    ],
)
def test_a_slip_in_a_setting_that_advice_rests_on_is_told(run, word: str, says: str) -> None:
    done = run("--engine", word, OOM)
    assert done.returncode == 2
    assert says in done.stderr
    assert run("--engine", "max_num_partial_prefills=4", OOM).returncode == 0
