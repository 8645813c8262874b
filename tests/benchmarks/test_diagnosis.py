"""The limits that the diagnosis and its advice have to keep on logs of others (issue: measured)."""

from __future__ import annotations

import pytest

from benchmarks import diagnosis
from benchmarks.diagnosis import Answer

SETS = ("captured", "public")


@pytest.fixture(scope="module")
def found() -> dict[str, list[Answer]]:
    return {name: diagnosis.answers(directory) for name, directory in diagnosis.sets().items()}


@pytest.mark.parametrize("name", SETS)
def test_macro_f1_of_the_failure_keeps_its_limit(found: dict[str, list[Answer]], name: str) -> None:
    score = diagnosis.score(name, found[name])
    assert score.f1 >= diagnosis.F1_LIMITS[name], score.classes


@pytest.mark.parametrize("name", SETS)
def test_no_advice_is_harmful(found: dict[str, list[Answer]], name: str) -> None:
    assert {one.name: one.marks.harm for one in found[name] if one.marks.harm} == {}


def test_advice_for_curable_memory_failures_is_useful(found: dict[str, list[Answer]]) -> None:
    every = [one for answers in found.values() for one in answers]
    score = diagnosis.score("all", every)
    assert score.useful_fraction >= diagnosis.USEFUL_LIMIT, score.useful


def test_what_a_captured_log_shows_is_found(found: dict[str, list[Answer]]) -> None:
    score = diagnosis.score("captured", found["captured"])
    _right, wrong, absent = score.figures
    assert (wrong, absent) == (0, 0)
    assert set(score.phase) == set(score.site) == {"right"}


@pytest.mark.parametrize("name", SETS)
def test_every_miss_has_been_reviewed(found: dict[str, list[Answer]], name: str) -> None:
    missed = diagnosis.misses(name, found[name])
    known = {key for key in diagnosis.reviewed() if key.startswith(f"{name}/")}
    assert set(missed) - known == set(), "a new miss: mend it, or say why in reviewed.toml"
    assert known - set(missed) == set(), "these are right by now: take them out of reviewed.toml"


def test_each_review_gives_its_kind_and_a_reason() -> None:
    for key, entry in diagnosis.reviewed().items():
        assert entry["kind"] in ("text", "label", "open"), key
        assert len(entry["why"]) > 20, key


def test_f1_counts_an_unknown_as_a_miss_and_as_a_false_unknown() -> None:
    pairs = [("a", "a"), ("a", "unknown"), ("unknown", "unknown")]
    assert diagnosis.f1_of_classes(pairs) == pytest.approx({"a": 2 / 3, "unknown": 2 / 3})
