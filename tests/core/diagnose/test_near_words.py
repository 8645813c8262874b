"""Refusals that share words with a row, and mean something else."""

from __future__ import annotations

import pytest

from tests.core.diagnose.sample_files import records
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.model import GIB, Failure

REFUSED = (
    "(APIServer pid=1) pydantic.ValidationError: 1 validation error for VllmConfig",
    "(APIServer pid=1)   Value error, {} [type=value_error, input_value=ArgsKwargs((), {{}})]",
)
CORE = "(EngineCore pid=7) ERROR 07-01 10:00:00 [core.py:900] "


@pytest.mark.parametrize(
    ("message", "failure"),
    [
        (
            "Async EPLB is only supported with the default policy.",
            Failure.CONFIGURATION_INVALID,
        ),
        (
            "EPLB requires tensor, prefill-context, or data parallelism, but TP=1,PCP=1,DP=1.",
            Failure.PARALLELISM_INVALID,
        ),
    ],
)
def test_a_policy_of_spreading_experts_is_no_layout(message: str, failure: Failure) -> None:
    lines = [line.format(message) for line in REFUSED]
    assert diagnose(Evidence(records=records(*lines))).failure is failure


def test_a_full_buffer_of_vllm_s_own_is_no_lack_of_host_memory() -> None:
    said = "MemoryError: Not enough space in the data buffer, try calling free_buf() to free space"
    found = diagnose(
        Evidence(records=records(CORE + "Traceback (most recent call last):", CORE + said))
    )
    assert found.failure is Failure.UNKNOWN
    assert (
        diagnose(
            Evidence(
                records=records(CORE + "Traceback (most recent call last):", CORE + "MemoryError")
            )
        ).failure
        is Failure.HOST_OUT_OF_MEMORY
    )


@pytest.mark.parametrize("bracket", ["", "("])
def test_the_request_that_is_too_long_is_read_in_every_spelling(bracket: str) -> None:
    said = (
        "ValueError: To serve at least one request with the model's max seq len (1048576), "
        f"{bracket}22.5 GiB KV cache is needed, which is larger than the available KV cache "
        "memory (17.39 GiB). Based on the available memory, the estimated maximum model length "
        "is 810208."
    )
    figures = diagnose(Evidence(records=records(said))).figures
    assert (figures["max_model_len"], figures["needed_bytes"]) == (1048576, round(22.5 * GIB))
