"""Every failure known of vLLM has a row, and its text is recognised in the logs of every era."""

from __future__ import annotations

import pytest

from tests.core.diagnose import era_logs
from tests.core.diagnose.era_logs import ERAS
from tests.core.diagnose.known_failures import KNOWN, Known, numbers
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.model import Confidence, Failure, Phase, Site

ROWS = {row.id: row for row in SIGNATURES}
KNOWN_COUNT = 83


CAUSES = [one for one in KNOWN if one.where not in ("wrapper", "kernel")]


def test_a_row_covers_the_releases_of_the_failures_that_it_recognises() -> None:
    for one in KNOWN:
        for row in (ROWS[name] for name in one.signatures):
            assert numbers(row.since or "0") <= numbers(one.since), row.id
            assert numbers(row.until or "99") >= numbers(one.until), row.id


def test_a_row_seen_in_a_release_that_had_lost_it_is_extrapolated() -> None:
    (one,) = (known for known in KNOWN if known.id == "swap_space_too_large")
    by_era = {era.version: _diagnosed(one.log(era, one.texts[0])).confidence for era in ERAS}
    assert by_era["0.17.1"] is Confidence.CERTAIN
    assert by_era["0.22.1"] is Confidence.EXTRAPOLATED


CASES = [
    pytest.param(one, text, id=f"{one.id}-{one.phase}-{number}")
    for one in CAUSES
    for number, text in enumerate(one.texts)
]


def _diagnosed(lines: list[str], **beside: object) -> Diagnosis:
    records = tuple(LogRecord(number, text) for number, text in enumerate(lines, 1))
    return diagnose(Evidence(records=records, **beside))  # type: ignore[arg-type]


def test_every_known_failure_is_mapped_to_a_row_and_a_failure() -> None:
    assert len({one.id for one in KNOWN}) == KNOWN_COUNT
    for one in KNOWN:
        assert one.signatures, one.id
        assert set(one.signatures) <= set(ROWS), one.id
        assert one.failure in set(Failure), one.id
        assert one.phase is None or one.phase in set(Phase), one.id
        assert one.site is None or one.site in set(Site), one.id


def test_an_entry_means_one_failure_but_where_its_wordings_mean_two() -> None:
    several: dict[str, set[str]] = {}
    for one in KNOWN:
        several.setdefault(one.id, set()).add(one.failure)
    assert {name: found for name, found in several.items() if len(found) > 1} == {
        # vLLM does not know the model, or the library that reads its configuration does not
        "arch_unsupported": {"model_unsupported", "dependency_mismatch"},
        # too little is free at the start, or the cache does not fit into what is free later
        "cpu_backend_memory": {"gpu_memory_taken", "host_out_of_memory"},
    }


def test_a_mapped_row_answers_the_failure_that_the_mapping_names() -> None:
    for one in KNOWN:
        if one.where != "wrapper":
            assert {ROWS[row].failure for row in one.signatures} == {one.failure}, one.id


@pytest.mark.parametrize(("one", "text"), CASES)
def test_a_known_failure_is_recognised_in_the_logs_of_its_eras(one: Known, text: str) -> None:
    eras = [era for era in ERAS if one.lived_in(era)]
    assert len(eras) > 0
    for era in eras:
        found = _diagnosed(one.log(era, text))
        answer = (found.failure, found.phase, found.site)
        assert answer == (one.failure, one.phase, one.site), era.version
        assert found.signature in one.signatures, era.version


ROOT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.44 GiB. GPU 0 has a total "
    "capacity of 79.10 GiB of which 1.97 GiB is free."
)
WRAPPERS = [one for one in KNOWN if one.where == "wrapper"]


@pytest.mark.parametrize("one", WRAPPERS, ids=[one.id for one in WRAPPERS])
def test_what_only_follows_never_decides_also_where_it_stands_first(one: Known) -> None:
    for era in ERAS:
        for process in ("core", "server"):
            wrapper = era.record(process, "ERROR", "core.py:946", one.texts[0])
            root = era_logs.raised_in_worker(
                era, "serving", ["vllm/v1/worker/gpu_worker.py:execute_model"], ROOT
            )
            lines = [*era_logs.started(era, "serving"), *wrapper, *root]
            found = _diagnosed(lines)
            assert (found.failure, found.signature) == ("gpu_out_of_memory", "serving-oom")


KERNEL = [one for one in KNOWN if one.where == "kernel"]
LAUNCH_FAILED = "torch.AcceleratorError: CUDA error: unspecified launch failure"


@pytest.mark.parametrize("one", KERNEL, ids=[one.id for one in KERNEL])
def test_a_kernel_line_decides_only_together_with_a_death(one: Known) -> None:
    for era in ERAS:
        healthy = list(era_logs.started(era, "serving"))
        execute = ["vllm/v1/worker/gpu_worker.py:execute_model"]
        died = [*healthy, *era_logs.raised_in_worker(era, "serving", execute, LAUNCH_FAILED)]
        assert _diagnosed(healthy, kernel_lines=one.texts).failure is Failure.NONE
        by_itself = _diagnosed(died)
        with_line = _diagnosed(died, kernel_lines=one.texts)
        supervised = _diagnosed(healthy, kernel_lines=one.texts, exit_status=1, was_ready=True)
        assert by_itself.signature == "launch-failed"
        for found in (with_line, supervised):
            assert (found.failure, found.phase) == (one.failure, one.phase)
            assert found.signature in one.signatures
