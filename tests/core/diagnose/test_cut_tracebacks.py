"""Call stacks of which an excerpt, a report or a terminal left only a part."""

from __future__ import annotations

import pytest

from tests.core.diagnose.sample_files import records
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.flattened import PARTS_MAX, START, unflattened
from vllm_warden.core.model import Failure, Phase, Site

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."
CORE = "(EngineCore pid=7) ERROR 07-01 10:00:00 [core.py:900] "
WORKER = "(Worker_TP1 pid=9) ERROR 07-01 10:00:00 [multiproc_executor.py:800] "


def of(*lines: str) -> Diagnosis:
    return diagnose(Evidence(records=records(*lines)))


def frame(function: str, file: str = "vllm/v1/worker/gpu_worker.py") -> str:
    return f'File "/opt/venv/lib/python3.12/site-packages/{file}", line 10, in {function}'


def test_a_traceback_on_one_line_is_read_like_any_other() -> None:
    line = (
        f"{START} {frame('worker_busy_loop')} output = func(*args) ^^^^ "
        f"{frame('profile_run')} self._dummy_run(n) ^^^ {OOM}"
    )
    found = of(line)
    assert (found.failure, found.phase) == (Failure.GPU_OUT_OF_MEMORY, Phase.PROFILE)


def test_line_breaks_written_as_two_characters_are_line_breaks() -> None:
    found = of(CORE + rf"failed: {START}\n  {frame('load_model')}\n    x = f(y)\n{OOM}")
    assert (found.failure, found.phase) == (Failure.GPU_OUT_OF_MEMORY, Phase.LOAD)


def test_a_start_without_a_frame_is_left_alone() -> None:
    text = f"he wrote: {START} and then nothing"
    assert unflattened(text) == [text]


def test_of_an_endless_stack_on_one_line_both_ends_are_kept() -> None:
    text = " ".join([START, *(frame(f"f{at}") for at in range(500)), OOM])
    lines = unflattened(text)
    assert len(lines) <= 3 * PARTS_MAX
    assert lines[-1] == OOM
    assert any("in f0" in line for line in lines)


def test_source_lines_ahead_of_the_first_frame_tell_the_phase() -> None:
    found = of(
        CORE + '    output = self.collective_rpc("determine_available_memory")',
        CORE + "  " + frame("get_response", "vllm/v1/executor/multiproc_executor.py"),
        CORE + "RuntimeError: Worker failed with error 'CUDA error: an illegal memory access was "
        "encountered', please check the stack trace above for the root cause",
    )
    assert (found.failure, found.phase) == (Failure.ILLEGAL_MEMORY_ACCESS, Phase.PROFILE)


def test_source_lines_of_another_record_tell_nothing() -> None:
    found = of(
        CORE.replace("10:00:00", "09:00:00") + '    self.collective_rpc("load_model")',
        CORE + "  " + frame("get_response", "vllm/v1/executor/multiproc_executor.py"),
        CORE + OOM,
    )
    assert found.phase is None


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("NCCL error: unhandled system error", Failure.COMMUNICATION_FAILURE),
        ("Weight x = 7392 is not divisible by min_thread_k = 128.", Failure.PARALLELISM_INVALID),
    ],
)
def test_what_v0_announces_of_a_worker_counts_where_the_traceback_is_cut(
    text: str, failure: Failure
) -> None:
    head = "(VllmWorkerProcess pid=5) ERROR 08-23 08:25:25 multiproc_worker_utils.py:226] "
    found = of(
        f"{head}Exception in worker VllmWorkerProcess while processing method load_model: {text}, "
        f"{START}",
        head + "  " + frame("load_model", "vllm/worker/worker.py"),
    )
    assert (found.failure, found.phase) == (failure, Phase.LOAD)


def test_a_validation_error_without_its_header_is_the_check_s_own_error() -> None:
    found = of(
        "  Value error, The checkpoint you are trying to load has model type `x` but Transformers "
        "does not recognize this architecture. [type=value_error, input_value=1, input_type=int]"
    )
    assert found.failure is Failure.DEPENDENCY_MISMATCH


def test_exceptions_whose_names_begin_in_lower_case_are_exceptions() -> None:
    found = of(
        CORE + START,
        CORE + "  " + frame("initialize_kv_cache", "vllm/v1/worker/gpu_model_runner.py"),
        CORE + "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND",
    )
    assert (found.failure, found.phase) == (Failure.COMMUNICATION_FAILURE, Phase.KV_ALLOC)


def test_what_a_watchdog_thread_died_of_is_its_exception() -> None:
    found = of(
        "[rank1]:[E701 10:00:00.1 ProcessGroupNCCL.cpp:1895] [PG ID 2 PG GUID 3 Rank 1] Process "
        "group watchdog thread terminated with exception: CUDA error: an illegal memory access "
        "was encountered"
    )
    assert (found.failure, found.ranks) == (Failure.ILLEGAL_MEMORY_ACCESS, (1,))


def test_the_site_of_nothing_is_not_guessed() -> None:
    found = of(WORKER + OOM)
    assert (found.failure, found.phase, found.site) == (Failure.GPU_OUT_OF_MEMORY, None, None)
    assert found.site is not Site.WEIGHTS
