"""A retry of capacity is called promising only for something that has changed or was measured."""

from __future__ import annotations

import pytest

from vllm_warden.core.decide.envelope import Envelope
from vllm_warden.core.decide.promising import promising
from vllm_warden.core.decide.slack import Slack
from vllm_warden.core.model import GIB

LEARNED = Envelope("k", version="0.15.1", free_bytes=60 * GIB)


def slack(gibs: float) -> Slack:
    return Slack(gibs * GIB, 0.8 * GIB, "", ())


@pytest.mark.parametrize(
    ("version", "free_gib", "left", "words"),
    [
        ("0.20.0", None, None, "learned with vLLM 0.15.1, and 0.20.0 runs now"),
        ("0.15.1", 61, None, "1.00 GiB more of the GPU were free"),
        ("0.15.1", 60, slack(1.9), "1.90 GiB were left beside the budget"),
    ],
)
def test_each_reason_is_told(
    version: str, free_gib: int | None, left: Slack | None, words: str
) -> None:
    free = None if free_gib is None else free_gib * GIB
    (reason,) = promising(LEARNED, version, free, left)

    assert words in reason


def test_where_nothing_has_changed_nothing_is_promised() -> None:
    assert promising(LEARNED, "0.15.1", int(60.9 * GIB), slack(1.7)) == ()


def test_what_is_not_known_promises_nothing() -> None:
    assert promising(LEARNED, None, None, None) == ()
    assert promising(Envelope("k"), "0.20.0", 80 * GIB, None) == ()
