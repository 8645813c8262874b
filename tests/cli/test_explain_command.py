"""The command ``vllm-warden explain``."""

from __future__ import annotations

import json

import pytest

from vllm_warden.cli.main import main
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.model import Failure

SUBJECTS = [*Failure, *(row.id for row in SIGNATURES)]


def test_without_a_subject_all_failures_and_all_signatures_are_listed(capsys) -> None:
    assert main(["explain"]) == 0
    text = capsys.readouterr().out
    assert [name for name in SUBJECTS if name not in text] == []


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_entry_is_readable_at_80_columns(capsys, monkeypatch, subject: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["explain", subject]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{subject}: ")
    assert [line for line in lines if len(line) > 80] == []


def test_a_sampler_that_fails_after_the_kv_cache_is_told_from_one_before_it(capsys) -> None:
    answers = {}
    for name in ("sampler-warmup-oom", "sampler-profile-oom"):
        assert main(["explain", name, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        (treatment,) = document["treatments"]
        useless = [one["setting"] for one in treatment["useless"]]
        answers[name] = (document["failure"], treatment["lowers"], useless)
    assert answers == {
        "sampler-warmup-oom": (
            "gpu_out_of_memory",
            ["gpu_memory_utilization"],
            ["max_num_seqs", "max_model_len"],
        ),
        "sampler-profile-oom": (
            "gpu_out_of_memory",
            ["max_num_seqs", "max_num_batched_tokens"],
            ["gpu_memory_utilization", "max_model_len"],
        ),
    }


def test_all_of_it_is_one_json_object(capsys) -> None:
    assert main(["explain", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["failure"] for one in document["failures"]] == list(Failure)
    assert all(one["means"] and one["treatments"] for one in document["failures"])


def test_a_consequence_is_explained_and_never_treated(capsys) -> None:
    assert main(["explain", "wrapper", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["failure"], document["treatments"]) == (None, [])


def test_an_unknown_subject_is_a_usage_error_that_says_where_the_names_are(capsys) -> None:
    assert main(["explain", "bad-luck"]) == 2
    assert "vllm-warden explain" in capsys.readouterr().err


def test_a_subject_that_is_none_cannot_steer_a_terminal(capsys) -> None:
    assert main(["explain", "a\x1b]0;owned\x07b"]) == 2
    assert "cannot explain ab: no such failure" in capsys.readouterr().err
