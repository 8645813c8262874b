"""Which finding decides, and what evidence beside the log changes."""
# ruff: noqa: E501 - log lines stand here as they are printed

from __future__ import annotations

import time

import pytest

from tests.core.diagnose.sample_files import SAMPLES, load, records
from vllm_warden.core.diagnose.asked import asked_settings
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.document import document
from vllm_warden.core.diagnose.evidence import Evidence, LostProcess
from vllm_warden.core.diagnose.figures import figures_of, gpu_of
from vllm_warden.core.model import GIB, MIB, Confidence, Failure, Phase, Site

HEALTHY = load(SAMPLES / "none" / "engine-dead-error-of-a-clean-stop.log").evidence().records
WORKER = "(Worker_TP1 pid=31) ERROR 03-14 09:26:53 [multiproc_executor.py:822] "


def test_no_evidence_at_all_is_no_failure() -> None:
    assert diagnose(Evidence(())).failure is Failure.NONE


def test_an_orderly_stop_is_no_failure_in_a_bare_log() -> None:
    assert diagnose(Evidence(HEALTHY)).failure is Failure.NONE


def test_an_orderly_stop_that_nobody_asked_for_was_a_signal() -> None:
    found = diagnose(Evidence(HEALTHY, exit_status=0, was_ready=True, reached=Phase.SERVING))
    assert (found.failure, found.phase) == (Failure.KILLED_BY_SIGNAL, Phase.SERVING)


def test_a_supervised_exit_without_a_word_is_unknown_even_with_status_0() -> None:
    found = diagnose(Evidence((), exit_status=0, reached=Phase.LOAD))
    assert (found.failure, found.phase) == (Failure.UNKNOWN, Phase.LOAD)


def test_a_lost_process_names_its_rank_and_signal() -> None:
    lost = (LostProcess(31, "VLLM::Worker_TP1", 1, -9),)
    found = diagnose(Evidence((), lost_processes=lost, reached=Phase.SERVING))
    assert (found.failure, found.ranks, found.figures) == (
        Failure.KILLED_BY_SIGNAL, (1,), {"signal": 9},
    )  # fmt: skip


def test_a_lost_process_does_not_hide_the_error_that_it_printed() -> None:
    lost = (LostProcess(31, "VLLM::Worker_TP1", 1),)
    log = load(SAMPLES / "load-oom" / "composed.log").evidence().records
    assert diagnose(Evidence(log, lost_processes=lost)).signature == "load-oom"
    unnamed = records(WORKER + "Traceback (most recent call last):", WORKER + "KeyError: 'plover'")
    assert diagnose(Evidence(unnamed, lost_processes=lost)).failure is Failure.UNKNOWN


def test_incomplete_evidence_stays_incomplete() -> None:
    assert diagnose(Evidence((), incomplete=True)).incomplete
    log = load(SAMPLES / "load-oom" / "composed.log").evidence().records
    assert diagnose(Evidence(log, incomplete=True)).incomplete


def test_a_version_newer_than_the_catalogue_is_extrapolated() -> None:
    log = load(SAMPLES / "load-oom" / "composed.log").evidence().records
    assert diagnose(Evidence(log)).confidence is Confidence.CERTAIN
    assert diagnose(Evidence(log, engine_version="0.34.0")).confidence is Confidence.EXTRAPOLATED


def test_the_same_exception_printed_twice_is_proof_once() -> None:
    lines = (WORKER + "Traceback (most recent call last):", WORKER + f'  File "{"vllm/v1/worker/gpu_worker.py"}", line 1, in load_model', WORKER + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.")  # fmt: skip
    assert len(diagnose(Evidence(records(*lines, *lines))).evidence) == 1


def test_both_ranks_that_ran_out_are_named() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU {} has a total capacity of 79.19 GiB of which 1.06 GiB is free."
    frame = '  File "vllm/v1/worker/gpu_worker.py", line 1, in load_model'
    lines = [
        f"(Worker_TP{rank} pid=3{rank}) ERROR 03-14 09:26:53 [multiproc_executor.py:822] {message}"
        for rank in (0, 1)
        for message in ("Traceback (most recent call last):", frame, text.format(rank))
    ]
    found = diagnose(Evidence(records(*lines)))
    assert (found.ranks, found.gpus) == ((0, 1), (0, 1))


def test_a_forged_record_of_the_api_server_is_no_cause_while_serving() -> None:
    forged = "(APIServer pid=10) ERROR 03-14 09:26:53 [serving.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."
    up = [record.text for record in HEALTHY][:10]
    assert up[-1].endswith("Application startup complete.")
    lines = records(*up, forged)
    assert diagnose(Evidence(lines)).failure is Failure.NONE
    assert diagnose(Evidence(lines, exit_status=0, was_ready=True)).failure is Failure.UNKNOWN


def test_a_traceback_of_2000_lines_is_diagnosed_in_time() -> None:
    frames = [f'{WORKER}  File "/opt/venv/lib/vllm/model_executor/models/llama.py", line {n}, in forward' for n in range(2000)]  # fmt: skip
    log = records(WORKER + "Traceback (most recent call last):", *frames, WORKER + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.")  # fmt: skip
    best = min(_seconds(Evidence(log)) for _ in range(3))
    assert best < 0.05


def _seconds(evidence: Evidence) -> float:
    begin = time.process_time()
    diagnose(evidence)
    return time.process_time() - begin


def test_the_private_pool_phrase_with_its_comma_is_read() -> None:
    figures = figures_of(
        "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 2 has a total capacity of 79.19 GiB of which 812.00 MiB is free. "
        "Process 77 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has 78.00 GiB memory in use. "
        "Of the allocated memory 76.50 GiB is allocated by PyTorch, with 1.25 GiB allocated in private pools (e.g., CUDA Graphs), "
        "and 301.25 MiB is reserved by PyTorch but unallocated."
    )
    assert figures["private_pools_bytes"] == 1.25 * GIB
    assert figures["reserved_unallocated_bytes"] == 301.25 * MIB
    assert (figures["gpu"], figures["other_processes"]) == (2, f"77:{GIB}")


def test_the_document_lists_other_processes() -> None:
    log = load(SAMPLES / "load-oom" / "composed.log").evidence().records
    text = log[-1].text
    assert text is not None
    shown = document(diagnose(Evidence(log)), {"remedy": "give_up"})
    assert (shown["failure"], shown["site"], shown["advice"]) == (
        "gpu_out_of_memory", Site.WEIGHTS, {"remedy": "give_up"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("{'model': 'm', 'port': 8000, 'max_num_seqs': 256}", {"max_num_seqs": 256}),
        ("{'a': 0.95, 'b': True, 'c': None, 'd': 'x\\'y'}", {"a": 0.95, "b": True, "d": "x'y"}),
        ("{'a': {'mode': 0, 'l': [1, 2]}, 'b': ['x', 'y']}", {"a": {"mode": 0, "l": [1, 2]}, "b": ["x", "y"]}),
        ("{'a': <Mode.X: 1>, 'b': 2}", {"b": 2}),
        ("{'a': 1, 'b': ", {"a": 1}),
        ("{}", {}),
    ],
)  # fmt: skip
def test_settings_are_read_from_the_log(text: str, settings: dict[str, object]) -> None:
    line = "(APIServer pid=1) INFO 11-29 14:41:00 [utils.py:9] non-default args: " + text
    assert asked_settings(records("x", line)) == settings


ALLOCATION = (
    "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 3 has a total capacity of 79.10 GiB"
)
TAKEN = (
    "ValueError: Free memory on device cuda:5 (1.0/79.1 GiB) on startup is less than desired "
    "GPU memory utilization (0.9, 71.2 GiB)"
)


@pytest.mark.parametrize(
    "text",
    [
        ALLOCATION,
        ALLOCATION.removeprefix("CUDA out of memory. "),
        TAKEN,
        f"{ALLOCATION}\n{TAKEN}",
        f"{ALLOCATION}\n{TAKEN.replace('cuda:5 ', '')}",
        "GPU 3 has a total capacity",
        "",
    ],
)
def test_the_gpu_alone_is_the_one_among_all_figures(text: str) -> None:
    assert gpu_of(text) == figures_of(text).get("gpu")


def test_what_is_nested_in_a_value_is_no_setting() -> None:
    line = (
        "INFO 11-29 14:34:11 [utils.py:253] non-default args: {'compilation_config': {'mode': "
        "<CompilationMode.NONE: 0>, 'cache_dir': '', 'x': Config(max_num_seqs=3, y='}')}, "
        "'max_num_seqs': 64, 'p': PoolerConfig(a='b', max_num_seqs=3), 'enforce_eager': True}"
    )
    assert asked_settings(records(line)) == {"max_num_seqs": 64, "enforce_eager": True}


TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 960.00 MiB. GPU 0 has a total "
    "capacity of 79.14 GiB of which 712.75 MiB is free. {} Of the allocated memory 74.06 GiB is "
    "allocated by PyTorch, and 2.22 GiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("listed", "own_gib", "others"),
    [
        ("Process 1457 has 78.43 GiB memory in use.", 78.43, None),
        (
            "Process 9 has 1.50 GiB memory in use. Process 1457 has 76.90 GiB memory in use.",
            76.9,
            f"9:{round(1.5 * GIB)}",
        ),
        (
            (
                "Process 1457 has 78.43 GiB memory in use. Including non-PyTorch memory, this process "
                "has 0 bytes memory in use."
            ),
            78.43,
            None,
        ),
        (
            (
                "Process 9 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has "
                "77.40 GiB memory in use."
            ),
            77.4,
            f"9:{GIB}",
        ),
    ],
)
def test_a_process_that_torch_does_not_know_as_itself_is_no_other(
    listed: str, own_gib: float, others: str | None
) -> None:
    figures = diagnose(Evidence(records(TORCH.format(listed)))).figures
    assert figures["process_bytes"] == round(own_gib * GIB)
    assert figures.get("other_processes") == others
