"""Lessons: proven before ready, never a known-bad one, and only for what they were learned on."""

from __future__ import annotations

import pytest

from vllm_warden.core.decide.envelope import (
    Envelope,
    envelope_key,
    inherited,
    note_bad,
    note_decided,
    note_proven,
    note_ready,
)
from vllm_warden.core.model import SettingValue
from vllm_warden.core.plan.spec import EngineFacts, ModelFacts


def test_proven_settings_win_over_the_last_that_became_ready() -> None:
    envelope = note_ready(note_proven(Envelope("k"), {"max_num_seqs": 256}), {"max_num_seqs": 512})

    assert envelope.start_changes() == {"max_num_seqs": 256}


def test_while_none_is_proven_the_last_ready_ones_are_used() -> None:
    assert note_ready(Envelope("k"), {"max_num_seqs": 512}).start_changes() == {"max_num_seqs": 512}


def test_known_bad_settings_are_never_started_with() -> None:
    envelope = note_bad(note_ready(Envelope("k"), {"max_num_seqs": 512}), {"max_num_seqs": 512})

    assert envelope.start_changes() == {}


def test_a_lesson_holds_for_one_model_engine_gpu_and_request_only() -> None:
    asked = {"max_num_seqs": 1024}
    keys = {
        envelope_key(asked, ModelFacts("a"), EngineFacts("0.15.1"), ("H100",)),
        envelope_key(asked, ModelFacts("b"), EngineFacts("0.15.1"), ("H100",)),
        envelope_key(asked, ModelFacts("a"), EngineFacts("0.16.0"), ("H100",)),
        envelope_key(asked, ModelFacts("a"), EngineFacts("0.15.1"), ("H200",)),
        envelope_key({"max_num_seqs": 512}, ModelFacts("a"), EngineFacts("0.15.1"), ("H100",)),
    }

    assert len(keys) == 5


def test_what_has_proven_itself_is_no_longer_held_to_be_bad() -> None:
    changes: dict[str, SettingValue] = {"max_num_seqs": 512}

    assert note_proven(note_bad(Envelope("k"), changes), changes).start_changes() == changes


def test_a_new_engine_version_starts_from_what_the_previous_one_proved() -> None:
    asked, gpus = {"max_num_seqs": 1024}, ("NVIDIA H100 1",)
    old = envelope_key(asked, ModelFacts(), EngineFacts("0.15.1"), gpus)
    new = envelope_key(asked, ModelFacts(), EngineFacts("0.20.0"), gpus)
    decided = note_decided(Envelope(old), {"max_num_seqs": 256}, "0.15.1")
    learned = note_bad(note_proven(decided, {"max_num_seqs": 256}), {})

    found = inherited(new, (learned,))

    assert found.start_changes() == {"max_num_seqs": 256}
    assert found.version == "0.15.1"
    assert found.known_bad == ()


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [({"max_num_seqs": 512}, ("NVIDIA H100 1",)), ({"max_num_seqs": 1024}, ("NVIDIA L4 1",))],
)
def test_other_settings_or_other_gpus_inherit_nothing(
    asked: dict[str, SettingValue], gpus: tuple[str, ...]
) -> None:
    old = envelope_key(
        {"max_num_seqs": 1024}, ModelFacts(), EngineFacts("0.15.1"), ("NVIDIA H100 1",)
    )
    key = envelope_key(asked, ModelFacts(), EngineFacts("0.20.0"), gpus)

    assert inherited(key, (note_proven(Envelope(old), {"max_num_seqs": 256}),)) == Envelope(key)
