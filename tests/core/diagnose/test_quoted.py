"""What users wrote can stand in a log in many forms, and is never taken for the engine's words."""
# ruff: noqa: E501 - log lines stand here as they are printed

from __future__ import annotations

import json
import time

import pytest

from tests.core.diagnose.sample_files import last_run, records
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.grammar import parse
from vllm_warden.core.diagnose.long_line import shortened
from vllm_warden.core.diagnose.phases import PhaseTracker
from vllm_warden.core.model import Failure, Phase

UP = (
    "INFO 11-29 16:00:00 [api_server.py:1395] vLLM API server version 0.9.2",
    "INFO:     Application startup complete.",
)
HEAD = "ERROR 11-29 16:20:00 [core.py:500] "
CRASH = (
    HEAD + "EngineCore encountered a fatal error.",
    HEAD + "Traceback (most recent call last):",
    HEAD + '  File "/opt/vllm/v1/worker/gpu_worker.py", line 1, in execute_model',
    HEAD + "RuntimeError: CUDA error: an illegal memory access was encountered",
)
OOM = (
    "Traceback (most recent call last):",
    '  File "/opt/vllm/v1/worker/gpu_worker.py", line 1, in execute_model',
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 95.00 GiB of which 1.00 GiB is free.",
)
JSON_OOM = json.dumps(
    {
        "levelname": "ERROR", "name": "vllm.v1.engine.core", "process": 4711,
        "message": "EngineCore encountered a fatal error.", "exc_info": "\n".join(OOM),
        "vllm_process_name": "EngineCore_DP0",
    }
)  # fmt: skip


def of(*lines: str) -> Diagnosis:
    log = records(*lines)
    return diagnose(Evidence(log, exit_status=0, was_ready=True, reached=Phase.SERVING))


@pytest.mark.parametrize(
    "quotation",
    [
        ["INFO 11-29 16:10:00 [logger.py:43] Received request cmpl-1: prompt: 'x', params: y"]
        + ["INFO 11-29 16:10:00 [logger.py:43] " + line for line in OOM],
        ["INFO 11-29 16:10:00 [async_llm_engine.py:174] Received request cmpl-1: prompt: 'x"]
        + ["INFO 11-29 16:10:00 [async_llm_engine.py:174] " + line for line in OOM],
        ["(APIServer pid=1) DEBUG 11-29 14:54:02 [entrypoints/logger.py:37] Request cmpl-1-0 details: prompt: 'x", "Fatal Python error: Segmentation fault", *OOM],
        ["(EngineCore_DP0 pid=2) " + HEAD + "Dumping input data for V1 LLM engine (v0.9.2) with config: prompt:", "Fatal Python error: Segmentation fault", *OOM],
        ["(EngineCore_DP0 pid=2) " + HEAD + "Dumping scheduler output for model execution: x"]
        + ["(EngineCore_DP0 pid=2) " + HEAD + line for line in OOM],
        [JSON_OOM],
        ["\r" + JSON_OOM],
    ],
    ids=["logger", "older file", "no head repeated", "dump", "dumped output", "json", "after a bar"],
)  # fmt: skip
def test_a_quotation_is_no_evidence(quotation: list[str]) -> None:
    found = of(*UP, *quotation, *CRASH)
    assert (found.failure, found.evidence[0].line) == (
        Failure.ILLEGAL_MEMORY_ACCESS,
        len(UP) + len(quotation) + 4,
    )
    assert of(*UP, *quotation).failure is Failure.UNKNOWN


def test_what_comes_behind_a_whole_quotation_is_read() -> None:
    whole = "INFO 11-29 16:10:00 [logger.py:43] Received request cmpl-1: prompt: 'x', params: SamplingParams(n=1)"
    aborted = "Fatal Python error: Segmentation fault"
    assert of(*UP, whole, aborted).signature == "segfault"
    assert of(*UP, whole, *CRASH).failure is Failure.ILLEGAL_MEMORY_ACCESS


def test_a_record_in_json_form_is_nobodys_word_where_the_engine_logs_text() -> None:
    """Rows that look anywhere in a line, because C libraries put much in front of it, look past."""
    fault = "Memory access fault by GPU node-4 (Agent handle: 0x55d0a1c0) on address 0x7f12000000."
    quoted = json.dumps({"levelname": "ERROR", "name": "vllm.x", "message": f"a prompt\n{fault}"})
    assert of(*UP, fault).signature == "rocm-memory-fault"
    assert of(*UP, quoted).signature is None


def test_a_log_that_begins_in_json_is_read_as_json() -> None:
    begin = json.dumps({"levelname": "INFO", "name": "vllm.x", "message": "vLLM API server version 0.32.0"})  # fmt: skip
    found = of("Triton is installed", UP[0], begin, "INFO:     Application startup complete.", JSON_OOM)  # fmt: skip
    assert found.failure is Failure.GPU_OUT_OF_MEMORY


@pytest.mark.parametrize("kept", range(16_380, 16_384))
def test_a_json_record_that_was_shortened_is_read_as_far_as_it_goes(kept: int) -> None:
    record = '{"levelname": "ERROR", "name": "vllm.v1.engine.core", "message": "' + OOM[2] + "\\n\\u00e4" * 3000  # fmt: skip
    text = shortened(("x" * (16_384 - kept) + record).encode())[16_384 - kept :]
    lines = list(parse(1, text))
    assert (lines[0].message, lines[0].file) == (OOM[2], "core.py")


def test_the_phase_does_not_follow_a_request_record() -> None:
    tracker = PhaseTracker()
    for line in UP:
        tracker.feed(line)
    tracker.feed("INFO 11-29 16:10:00 [logger.py:43] Shutting down")
    tracker.feed("(APIServer pid=1) INFO 11-29 16:10:00 [entrypoints/logger.py:43] Shutting down")
    tracker.feed("(APIServer pid=1) ERROR 11-29 16:10:00 [serving_chat.py:237] Shutting down")
    assert tracker.phase is Phase.SERVING


UNIT = "\\nTraceback (most recent call last):\\nError: x"
SIZE = 48 * 1024
HOSTILE = {
    "json chained": '{"levelname":"ERROR","message":"' + UNIT * (SIZE // len(UNIT) - 2) + '"}',
    "json newlines": '{"levelname":"INFO","message":"' + "\\n" * (SIZE // 2 - 20) + '"}',
    "json exceptions": '{"levelname":"ERROR","message":"' + "\\nError: x" * (SIZE // 10) + '"}',
    "json links": '{"levelname":"ERROR","message":"' + ("Error: x\\n\\nThe above exception was the direct cause\\n\\nTraceback (most recent call last):\\n" * 450) + '"}',
    "carriage returns": "\rE" * (SIZE // 2),
    "carriage returns and exceptions": "\rError: x" * (SIZE // 9),
    "long message": HEAD + "Error: " + "x" * SIZE,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("before", [(), UP], ids=["from the start", "while serving"])
def test_twenty_hostile_records_take_less_than_200_ms(name: str, before: tuple[str, ...]) -> None:
    lines = [*before, *[HOSTILE[name]] * 20]
    took = []
    for _ in range(3):
        begin = time.process_time()
        of(*lines)
        took.append(time.process_time() - begin)
    assert min(took) < 0.2


def test_the_time_for_hostile_records_grows_with_their_number() -> None:
    def seconds(count: int) -> float:
        begin = time.process_time()
        of(*[HOSTILE["json links"]] * count)
        return time.process_time() - begin

    assert min(seconds(160) for _ in range(2)) < 8 * max(seconds(40), 0.02)


def test_a_traceback_without_an_end_swallows_no_other_record() -> None:
    head = "ERROR 11-29 16:20:01 [multiproc_executor.py:135] "
    cut = HEAD + "Traceback (most recent call last):"
    died = head + "Worker proc VllmWorker-1 died unexpectedly, shutting down executor."
    assert of(*UP, cut, died).signature == "worker-died"
    aborted = "Fatal Python error: Segmentation fault"
    assert of(*UP, "Traceback (most recent call last):", aborted).signature == "segfault"


@pytest.mark.parametrize(
    "text",
    ["non-default args: {}", "WARNING 11-29 16:00:00 [x.py:1] non-default args: {}"],
)
def test_only_a_record_of_the_engine_begins_a_run(text: str) -> None:
    args = "INFO 11-29 16:00:00 [api_utils.py:1] non-default args: {}"
    _, count = last_run(records(args, *UP, *CRASH, text))
    assert count == 1
    assert last_run(records(args, *UP, *CRASH, args))[1] == 2


@pytest.mark.parametrize(
    "stop", ["INFO:     Shutting down", "(Worker pid=3) INFO:     Shutting down"]
)
def test_only_the_server_that_came_up_says_that_it_stops(stop: str) -> None:
    tag = "(APIServer pid=1) "
    up = [tag + line for line in UP]
    core = [f"(EngineCore_DP0 pid=2) {line}" for line in CRASH]
    assert of(*up, stop, *core).failure is Failure.ILLEGAL_MEMORY_ACCESS
    assert of(*up, tag + "INFO:     Shutting down", *core).failure is Failure.KILLED_BY_SIGNAL


def test_a_usage_without_an_error_begins_no_run() -> None:
    args = "INFO 11-29 16:00:00 [api_utils.py:1] non-default args: {}"
    usage = "usage: vllm serve [model_tag] [options]"
    refused = "vllm serve: error: unrecognized arguments: --turbo"
    assert last_run(records(args, *UP, *CRASH, usage, "a word of a user"))[1] == 1
    last, count = last_run(records(args, *UP, *CRASH, usage, refused))
    assert (count, [record.text for record in last][-2:]) == (2, [usage, refused])
