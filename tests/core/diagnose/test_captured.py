"""Logs captured from real vLLM of several versions against their labels."""

from __future__ import annotations

import json

import pytest

from tests.core.diagnose.sample_files import CAPTURED, load
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.document import document

LABELS = [json.loads(line) for line in (CAPTURED / "labels.jsonl").read_text().splitlines()]
NOT_TOLD = {"signal", "rank"}  # known to who sent the signal; most logs do not tell


@pytest.mark.parametrize("label", LABELS, ids=[label["id"] for label in LABELS])
def test_a_captured_log_is_diagnosed_as_labelled(label: dict[str, object]) -> None:
    shown = document(diagnose(load(CAPTURED / f"{label['id']}.log").evidence()))
    assert shown["failure"] == label["failure"]
    assert shown["phase"] == label["phase"]
    assert shown["site"] == label["site"]
    if label["failure"] != "none":
        assert shown["engine_version"] in (label["vllm"], None)


@pytest.mark.parametrize("label", LABELS, ids=[label["id"] for label in LABELS])
def test_the_figures_of_a_captured_log_are_those_printed_in_it(label: dict[str, object]) -> None:
    found = document(diagnose(load(CAPTURED / f"{label['id']}.log").evidence()))["figures"]
    figures = label["figures"]
    assert isinstance(found, dict)
    assert isinstance(figures, dict)
    for name, value in figures.items():
        if name in NOT_TOLD:
            continue
        if isinstance(value, int | float):
            assert found[name] == pytest.approx(value, rel=1e-6, abs=1), name
        else:
            assert found[name] == value, name


@pytest.mark.parametrize(
    "label",
    [label for label in LABELS if label.get("ranks")],
    ids=[label["id"] for label in LABELS if label.get("ranks")],
)
def test_the_ranks_that_failed_are_named(label: dict[str, object]) -> None:
    diagnosis = diagnose(load(CAPTURED / f"{label['id']}.log").evidence())
    ranks = label["ranks"]
    assert isinstance(ranks, list)
    # Several versions print no rank before the groups exist, and a rank may die unheard.
    assert set(diagnosis.ranks) <= set(ranks)
