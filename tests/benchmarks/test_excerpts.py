"""People paste the end of a log: what is cut away may cost the answer, but never make it wrong."""

from __future__ import annotations

import json

import pytest

from benchmarks.diagnosis import CORPUS
from benchmarks.diagnosis_judge import judge
from vllm_warden.core.decide.advice import advise
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.document import document
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.model import Failure

CAPTURED = CORPUS / "captured"
LABELS = [json.loads(line) for line in (CAPTURED / "labels.jsonl").read_text().splitlines()]
FALSE_ROOT = {"0.15.1/19-sigkill-worker-in-flight-tp2"}
"""A killed rank leaves a connection error in the other's stack; its own death is cut away."""


@pytest.mark.parametrize("lines_kept", [25, 60])
def test_the_end_of_a_log_gives_the_right_answer_or_none_and_no_harmful_advice(
    lines_kept: int,
) -> None:
    wrong = {}
    for label in LABELS:
        text = (CAPTURED / f"{label['id']}.log").read_text(errors="replace").split("\n")
        lines = text[-lines_kept:]
        records = tuple(LogRecord(number, line) for number, line in enumerate(lines, 1))
        found = diagnose(Evidence(records))
        settings = {key: value for key, value in label["settings"].items() if key != "model"}
        decision = (
            None
            if found.failure is Failure.NONE
            else advise(found, Evidence((), settings=settings))
        )
        marks = judge(label, document(found), decision)
        is_open = marks.said in ("unknown", "none")
        if marks.harm or not (marks.said == marks.truth or is_open):
            wrong[label["id"]] = (marks.said, marks.harm)
    assert set(wrong) <= FALSE_ROOT, wrong
