"""The labelled logs of vLLM 0.32.0 on a CPU, alone and with what else was known of each exit.

A file's head (``#`` lines) says how it was made, and its first column is the second of each line;
the engine printed neither, and both are taken off as from anybody's log. A label holds what is
known with the exit status and the counters; ``log_alone`` says what the text alone can tell where
that is less (null: nothing), and ``phases`` lists the phases that count as right where orphans log
on after their parent's death.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.core.diagnose.sample_files import CORPUS
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.envelopes.undo import undone
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord

FOLDER = CORPUS / "cpu"
LABELS: list[dict[str, Any]] = [
    json.loads(line) for line in (FOLDER / "labels.jsonl").read_text(encoding="utf-8").splitlines()
]
ALONE = [label for label in LABELS if label.get("log_alone", "told") is not None]
FAILED = [label for label in LABELS if label["failure"] != "none"]


def _log(label: dict[str, Any]) -> Evidence:
    data = (FOLDER / f"{label['id']}.log").read_bytes()
    lines = [
        (block.number(index), line.decode("utf-8", "replace"))
        for block in undone([data])
        for index, line in enumerate(block.lines())
    ]
    return Evidence(tuple(LogRecord(number, line) for number, line in lines))


def _verdict(found: Diagnosis) -> tuple[str, str | None, str | None]:
    return found.failure, found.phase, found.site


def _check_figures(label: dict[str, Any], found: Diagnosis) -> None:
    wanted = dict(label["figures"])
    rank = wanted.pop("rank", None)
    assert rank is None or found.ranks == (rank,)
    assert {name: found.figures.get(name) for name in wanted} == wanted


def _id(label: dict[str, Any]) -> str:
    return str(label["id"])


@pytest.mark.parametrize("label", ALONE, ids=_id)
def test_a_log_alone_is_diagnosed_as_it_was_made(label: dict[str, Any]) -> None:
    found = diagnose(_log(label))
    wanted = label.get("log_alone", [label["failure"], label["phase"], label["site"]])
    assert list(_verdict(found)) == wanted
    _check_figures(label, found)


@pytest.mark.parametrize("label", FAILED, ids=_id)
def test_a_log_with_exit_status_and_counters_is_diagnosed_as_it_was_made(
    label: dict[str, Any],
) -> None:
    evidence = replace(
        _log(label),
        exit_status=label["exit_status"],
        oom_kills=label.get("oom_kills", 0),
        note=label.get("ended_by"),
    )
    found = diagnose(evidence)
    assert (found.failure, found.site) == (label["failure"], label["site"])
    assert found.phase in label.get("phases", [label["phase"]])
    _check_figures(label, found)


@pytest.mark.parametrize("name", ["m1_cgroup_oom_load", "m4_cgroup_oom_engine_import"])
def test_a_log_that_ends_in_the_start_is_not_called_healthy(name: str) -> None:
    (label,) = (one for one in LABELS if one["id"] == name)
    summary = diagnose(_log(label)).summary
    assert "it ends while the engine starts" in summary
    assert "hang there, or have been killed" in summary


def test_every_log_has_a_label() -> None:
    assert {path.stem for path in FOLDER.glob("*.log")} == {label["id"] for label in LABELS}
