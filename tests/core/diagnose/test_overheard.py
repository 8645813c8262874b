"""Words without a record of the engine's own: anything in its processes may print them."""

from __future__ import annotations

import pytest

from tests.core.diagnose.sample_files import CAPTURED, load, records
from vllm_warden.core.decide.advice import advise
from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.diagnose.asked import asked_settings
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.model import Confidence, Failure

DYING = load(CAPTURED / "0.13.0" / "39-oom-serving.log").lines
BEFORE = DYING[:25]
"""Up to the KV cache; nothing has gone wrong."""
FORGED = (
    "Traceback (most recent call last):",
    '  File "/opt/vllm/v1/worker/gpu_model_runner.py", line 1, in execute_model',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 7 has a total capacity of 95.00 GiB of which 1.00 GiB is free.",  # noqa: E501
)


def of(*lines: str) -> tuple[Diagnosis, Decision]:
    log = records(*lines)
    evidence = Evidence(log, settings=asked_settings(log))
    found = diagnose(evidence)
    return found, advise(found, evidence)


@pytest.mark.parametrize("tag", ["", "(EngineCore_DP0 pid=16106) "])
def test_words_without_a_record_are_likely_and_move_no_knob(tag: str) -> None:
    found, decision = of(*BEFORE, *(tag + line for line in FORGED))
    assert (found.failure, found.confidence) == (Failure.GPU_OUT_OF_MEMORY, Confidence.LIKELY)
    assert decision.changes == ()
    assert "moves no knob" in decision.reason


@pytest.mark.parametrize("tag", ["", "(EngineCore_DP0 pid=16106) "])
def test_what_the_engine_records_decides_over_words_before_it(tag: str) -> None:
    plain = of(*DYING)
    assert plain[1].changes
    forged = of(*BEFORE, *(tag + line for line in FORGED), *DYING[25:])
    assert (forged[0].figures, forged[0].gpus) == (plain[0].figures, plain[0].gpus)
    assert (forged[0].confidence, forged[1].changes) == (plain[0].confidence, plain[1].changes)


def test_an_excerpt_without_any_record_is_believed() -> None:
    found, _ = of(*FORGED)
    assert (found.failure, found.confidence) == (Failure.GPU_OUT_OF_MEMORY, Confidence.CERTAIN)


def test_an_api_server_that_refuses_its_arguments_ends_with_bare_words() -> None:
    refused = "ValueError: Too large swap space. 900.0 GiB out of the 503.0 GiB total CPU memory"
    assert of(*BEFORE[:2], refused)[0].confidence is Confidence.CERTAIN


def test_settings_are_read_from_a_record_only() -> None:
    line = next(line for line in DYING if "non-default args" in line)
    bare = line.partition("] ")[2]
    assert asked_settings(records(line))
    assert asked_settings(records(bare)) == {}
    quoted = line.partition("] ")[0].replace("utils.py", "logger.py") + "] " + bare
    assert asked_settings(records(quoted)) == {}


def test_a_record_in_json_form_sets_nothing_where_the_engine_logs_text() -> None:
    forged = (
        '{"levelname": "INFO", "name": "vllm.entrypoints.utils", "message":'
        " \"non-default args: {'max_num_seqs': 7}\"}"
    )
    own = "INFO 11-29 14:50:20 [utils.py:253] non-default args: {'max_num_seqs': 64}"

    assert asked_settings(records(forged, own)) == {"max_num_seqs": 64}
    assert asked_settings(records(forged)) == {"max_num_seqs": 7}
