"""Every catalogue row against its samples, and every near miss against all rows."""

from __future__ import annotations

import pytest

from tests.core.diagnose.sample_files import Sample, all_samples
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.findings import read
from vllm_warden.core.model import Failure, Role

SAMPLES = all_samples()
IDS = [f"{sample.folder}/{sample.name}" for sample in SAMPLES]


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_a_sample_is_diagnosed_as_its_header_says(sample: Sample) -> None:
    diagnosis = diagnose(sample.evidence())
    assert (diagnosis.failure, diagnosis.phase, diagnosis.site) == sample.expected()
    if "option" in sample.header:
        assert diagnosis.figures["option"] == sample.header["option"]


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_a_sample_is_decided_by_the_row_that_it_lies_under(sample: Sample) -> None:
    expected = sample.header.get("signature", sample.folder)
    found = diagnose(sample.evidence()).signature
    assert found == (None if expected == "none" else expected)


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_the_row_of_a_sample_is_among_its_findings(sample: Sample) -> None:
    if sample.folder != "none":
        assert sample.folder in {item.row.id for item in read(sample.evidence()).findings}


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_a_failure_comes_with_proof(sample: Sample) -> None:
    diagnosis = diagnose(sample.evidence())
    assert bool(diagnosis.evidence) is (diagnosis.failure is not Failure.NONE)


def test_every_row_has_a_sample_and_every_sample_a_row() -> None:
    folders = {sample.folder for sample in SAMPLES} - {"none"}
    assert folders == {row.id for row in SIGNATURES}


def test_every_row_has_a_near_miss_that_says_its_words_without_failing() -> None:
    near = {sample.name for sample in SAMPLES if sample.folder == "none"}
    assert {f"{row.id}-mentioned" for row in SIGNATURES} <= near


def test_ids_are_unique() -> None:
    ids = [row.id for row in SIGNATURES]
    assert len(ids) == len(set(ids))


def test_every_sample_states_where_it_comes_from() -> None:
    for sample in SAMPLES:
        assert sample.header["provenance"] in {"captured", "reported", "composed"}, sample.name
        assert sample.header["vllm"], sample.name


def test_a_consequence_has_a_sample_in_which_it_comes_before_its_cause() -> None:
    for row in SIGNATURES:
        if row.role is not Role.CONSEQUENCE:
            continue
        for sample in (one for one in SAMPLES if one.folder == row.id):
            findings = read(sample.evidence()).findings
            first = min(item.line for item in findings if item.row is row)
            causes = [item.line for item in findings if item.role is Role.CAUSE]
            assert any(first < line for line in causes), f"{row.id}/{sample.name}"


def test_rows_name_no_remedy() -> None:
    words = ("lower ", "raise ", "increase", "decrease", "set ", "try ", "restart")
    for row in SIGNATURES:
        assert not any(word in row.summary.lower() for word in words), row.id
