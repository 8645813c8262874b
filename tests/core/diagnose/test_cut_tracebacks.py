"""Call stacks of which an excerpt, a report or a terminal left only a part."""

from __future__ import annotations

import pytest

from tests.core.diagnose.sample_files import records
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.flattened import PARTS_MAX, START, unflattened
from vllm_warden.core.model import Confidence, Failure, Phase, Site

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


def test_ranks_fail_at_the_same_place_so_a_cut_stack_of_one_places_the_error_of_another() -> None:
    found = of(
        WORKER + "  " + frame("load_weights", "vllm/model_executor/models/llama.py"),
        WORKER + "    x = y",
        WORKER.replace("TP1", "TP0").replace("=9", "=8") + OOM,
    )
    assert (found.phase, found.site) == (Phase.LOAD, Site.WEIGHTS)


def test_cut_stacks_that_disagree_place_nothing() -> None:
    found = of(
        WORKER + "  " + frame("load_weights"),
        CORE + "  " + frame("determine_available_memory"),
        WORKER.replace("TP1", "TP0").replace("=9", "=8") + OOM,
    )
    assert found.phase is None


def test_a_fatal_signal_is_placed_by_the_stack_that_faulthandler_printed() -> None:
    found = of(
        "Fatal Python error: Segmentation fault",
        "",
        "Current thread 0x00007f0000000000 (most recent call first):",
        '  File "/opt/venv/lib/python3.9/site-packages/torch/cuda/graphs.py", line 77 in replay',
        '  File "/opt/venv/lib/python3.9/site-packages/vllm/x.py", line 725 in capture_model',
    )
    assert (found.failure, found.phase) == (Failure.KILLED_BY_SIGNAL, Phase.CUDAGRAPH)


def test_a_failure_of_which_only_wrappers_are_left_is_unknown_and_not_none() -> None:
    found = of(
        "INFO 07-01 10:00:00 [api_server.py:100] vLLM API server version 0.9.1",
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.",
    )
    assert found.failure is Failure.UNKNOWN


def test_a_call_stack_without_its_exception_is_a_failure() -> None:
    found = of(CORE + START, CORE + "  " + frame("initialize_kv_cache"))
    assert (found.failure, found.phase) == (Failure.UNKNOWN, Phase.KV_ALLOC)


def test_what_only_an_engine_core_plans_a_worker_allocates() -> None:
    planning = frame("get_kv_cache_configs", "vllm/v1/core/kv_cache_utils.py")
    error = "ValueError: Hybrid KV cache manager is disabled but failed to convert"
    assert of(CORE + "  " + planning, CORE + error).phase is Phase.KV_PLAN
    assert of(WORKER + "  " + planning, WORKER + error).phase is Phase.KV_ALLOC


def test_a_worker_initializes_from_its_config_what_the_core_also_warms_up() -> None:
    in_worker = frame("initialize_from_config", "vllm/v1/worker/worker_base.py")
    in_core = frame("initialize_from_config", "vllm/v1/executor/abstract.py")
    assert of(WORKER + "  " + in_worker, WORKER + OOM).phase is Phase.KV_ALLOC
    assert of(CORE + "  " + in_core, CORE + OOM).phase is None


def test_the_loop_of_the_engine_core_runs_only_once_it_is_ready() -> None:
    found = of(
        "INFO 07-01 10:00:00 [kv_cache_utils.py:1087] GPU KV cache size: 226,000 tokens",
        CORE + "  " + frame("run_engine_core", "vllm/v1/engine/core.py"),
        CORE + "    engine_core.run_busy_loop()",
        CORE + OOM,
    )
    assert found.phase is Phase.SERVING


@pytest.mark.parametrize(
    "line",
    [
        "INFO 11-19 21:10:03 [v1/metrics/loggers.py:127] Engine 000: Avg prompt throughput: 1",
        "INFO 11-19 21:10:03 [metrics.py:455] Avg prompt throughput: 1.8 tokens/s, Running: 1 reqs",
        "(APIServer pid=7) INFO 05-04 17:08:30 [launcher.py:46] Route: /health, Methods: GET",
        "INFO:     Started server process [1]",
    ],
)
def test_what_only_a_ready_server_says_places_an_excerpt_in_serving(line: str) -> None:
    found = of(line, "[Worker_TP3 pid=213] ERROR 11-19 21:10:38 [executor.py:671] " + OOM)
    assert (found.phase, found.ranks) == (Phase.SERVING, (3,))


READY = (
    "INFO 07-01 10:00:00 [api_server.py:100] vLLM API server version 0.31.0",
    "INFO:     Application startup complete.",
)
BARE = ("Traceback (most recent call last):", "  " + frame("execute_model"), OOM)


def test_bare_last_words_of_a_serving_engine_are_likely_and_move_no_knob() -> None:
    found = of(*READY, *BARE)
    assert (found.failure, found.phase) == (Failure.GPU_OUT_OF_MEMORY, Phase.SERVING)
    assert (found.confidence, found.overheard) == (Confidence.LIKELY, True)


def test_bare_last_words_that_no_row_knows_are_unknown() -> None:
    found = of(*READY, "RuntimeError: CUDA driver error: odd")
    assert (found.failure, found.phase) == (Failure.UNKNOWN, Phase.SERVING)


@pytest.mark.parametrize(
    "after",
    [
        'INFO:     127.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK',
        "INFO:     Shutting down",
        "INFO 07-01 10:00:10 [loggers.py:127] Engine 000: Avg prompt throughput: 1.0 tokens/s",
    ],
)
def test_bare_words_behind_which_the_engine_is_well_are_nothing(after: str) -> None:
    assert of(*READY, *BARE, after).failure is Failure.NONE


def test_what_the_engine_records_outranks_bare_last_words() -> None:
    found = of(
        *READY,
        CORE + START,
        CORE + "  " + frame("run_busy_loop", "vllm/v1/engine/core.py"),
        CORE + "RuntimeError: CUDA error: an illegal memory access was encountered",
        *BARE,
    )
    assert (found.failure, found.overheard) == (Failure.ILLEGAL_MEMORY_ACCESS, False)


SAMPLER = (
    CORE + "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
    "requests. Please try lowering `max_num_seqs`"
)
FAILED_START = "RuntimeError: Engine core initialization failed. See root cause above."


def test_where_only_the_words_of_the_sampler_are_left_the_phase_is_a_guess() -> None:
    alone = of(SAMPLER)
    placed = of(CORE + "  " + frame("compile_or_warm_up_model"), SAMPLER)
    assert (alone.phase, alone.confidence) == (Phase.WARMUP, Confidence.LIKELY)
    assert (placed.phase, placed.confidence) == (Phase.WARMUP, Confidence.CERTAIN)


def test_silence_proves_a_vanished_process_only_in_a_log_that_shows_its_beginning() -> None:
    begin = "INFO 07-01 10:00:00 [api_server.py:100] vLLM API server version 0.9.1"
    assert of(begin, FAILED_START).failure is Failure.KILLED_BY_SIGNAL
    assert of(FAILED_START).failure is Failure.UNKNOWN


def test_frames_on_one_line_need_no_start_of_a_traceback() -> None:
    found = of(f"{frame('worker_busy_loop')} x = f() {frame('load_model')} y = g() ^^^ {OOM}")
    assert (found.failure, found.phase) == (Failure.GPU_OUT_OF_MEMORY, Phase.LOAD)


NOT_BY_A_SIGNAL = (
    CORE + "Traceback (most recent call last):",
    CORE + "  " + frame("load_model"),
    CORE + "    raise failure",
)
START_OF_A_RUN = (
    "(APIServer pid=1) INFO 07-01 09:59:00 [api_server.py:100] vLLM API server version 0.32.0",
    "(EngineCore pid=7) INFO 07-01 09:59:30 [core.py:100] Initializing a V1 LLM engine (v0.32.0)",
)
ENDED = (
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. "
    "Failed core proc(s): {'EngineCore': 1}"
)


@pytest.mark.parametrize("last", ["failure of an odd kind", "a.b._Odd: no such shard", ""])
def test_who_recorded_a_call_stack_did_not_vanish_without_a_word(last: str) -> None:
    assert of(*START_OF_A_RUN, *NOT_BY_A_SIGNAL, CORE + last, ENDED).failure is Failure.UNKNOWN


@pytest.mark.parametrize(
    "said",
    ["vllm.a.b._Unavailable: gone", "StopIteration", "ExceptionGroup: two (2 sub-exceptions)"],
)
def test_exceptions_of_unusual_names_are_shown(said: str) -> None:
    found = of(*START_OF_A_RUN, *NOT_BY_A_SIGNAL, CORE + said, ENDED)
    assert found.failure is Failure.UNKNOWN
    assert [proof.text for proof in found.evidence] == [said]
