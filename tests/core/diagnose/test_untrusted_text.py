"""Text of users never changes what is said of an engine, wherever vLLM prints it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.core.diagnose.user_text import (
    BASES,
    PLACES,
    base_of,
    blocks,
    hostile_blocks,
    interleave,
    marker_lines,
    positions,
)
from vllm_warden.core.decide.advice import advise
from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.decide.document import decision_document
from vllm_warden.core.diagnose import asked, findings, grammar, runs, whole_log
from vllm_warden.core.diagnose.detect import Prints
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.grammar import LogLine
from vllm_warden.core.diagnose.quoted import Quotes
from vllm_warden.core.diagnose.tracebacks import Raised, Tracebacks
from vllm_warden.core.diagnose.whole_log import diagnosed_runs
from vllm_warden.core.model import Confidence

pytestmark = pytest.mark.slow

WOULD_CHANGE_MIN_FRACTION = 0.3

OF_PROGRESS_BARS = {"graphs_captured", "graphs_sizes"}
"""Bars have no head, so the quotation before one may swallow it. No user writes before vLLM serves,
when it draws bars; here the text comes anywhere. (What is decided must be the same even so.)"""

examples = settings(
    phases=[Phase.explicit, Phase.generate],  # the examples are long; shrinking takes minutes
    suppress_health_check=list(HealthCheck),
    max_examples=60,
)


def judge(lines: Sequence[str]) -> tuple[Diagnosis, Decision]:
    """As ``vllm-warden diagnose FILE`` does it: the last run counts."""
    *_, last = diagnosed_runs(["\n".join([*lines, ""]).encode()])
    return last.diagnosis, advise(last.diagnosis, last.evidence)


def verdict(lines: Sequence[str]) -> tuple[object, ...]:
    found, decision = judge(lines)
    return (
        *(found.failure, found.phase, found.site, found.signature, found.confidence),
        {name: value for name, value in found.figures.items() if name not in OF_PROGRESS_BARS},
        decision_document(decision),
    )


@cache
def verdict_of(name: str) -> tuple[object, ...]:
    return verdict(base_of(name).lines)


def quoted_in(draw: st.DrawFn, name: str, place: str) -> list[str]:
    """The log of that name with hostile text where vLLM may print a user's."""
    base = base_of(name)
    heads = {"access line": True, "json form": False}.get(place)  # as it would deceive best
    text = PLACES[place](base, draw(blocks(heads=heads)), by_repr=not draw(st.integers(0, 3)))
    return interleave(base, draw(positions(base)), text, draw(st.sampled_from([0, 0, 1, 3])))


@pytest.mark.parametrize("place", PLACES)
@examples
@given(data=st.data(), name=st.sampled_from(BASES))
def test_quoted_text_changes_no_verdict(place: str, data: st.DataObject, name: str) -> None:
    lines = data.draw(st.composite(quoted_in)(name, place))
    assert verdict(lines) == verdict_of(name)


@examples
@given(data=st.data(), name=st.sampled_from(BASES))
def test_bare_lines_are_likely_at_most_and_move_no_knob(data: st.DataObject, name: str) -> None:
    base = base_of(name)
    text = data.draw(blocks(heads=False))
    at, gap = data.draw(positions(base)), data.draw(st.sampled_from([0, 0, 1, 3]))
    lines = interleave(base, at, text, gap)
    found, decision = judge(lines)
    if verdict(lines) != verdict_of(name):
        assert found.confidence is Confidence.LIKELY
        assert decision.changes == ()


def test_a_parser_that_trusts_every_logger_would_often_be_misled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The inputs of the tests above are hostile: without the checks many change the verdict."""
    plain = {name: verdict_of(name) for name in BASES}
    assert hostile_blocks(), "chosen by the parser as it is, whichever test comes first"
    assert marker_lines()
    misled: list[bool] = []

    @settings(examples, max_examples=300, database=None)
    @given(data=st.data(), name=st.sampled_from(BASES), place=st.sampled_from(list(PLACES)))
    def measure(data: st.DataObject, name: str, place: str) -> None:
        misled.append(verdict(data.draw(st.composite(quoted_in)(name, place))) != plain[name])

    _trust_every_logger(monkeypatch)
    try:
        measure()
    finally:
        grammar._known_head.cache_clear()
    assert len(misled) >= 100
    assert sum(misled) / len(misled) >= WOULD_CHANGE_MIN_FRACTION


def _trust_every_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes out every check of who speaks: file, level, process, and what a record holds."""
    finish = Tracebacks.finish

    def all_logged(self: Tracebacks) -> list[Raised]:
        raised = finish(self)
        for one in raised:
            one.logged = True
        return raised

    def at_any_level(self: Prints, line: LogLine) -> bool:
        begins = any(text in line.message for text in self.begins)
        return begins and (self.pattern is None or bool(self.pattern.search(line.message)))

    def each_by_itself(number: int, parts: list[str]) -> Iterator[LogLine]:
        return (grammar._parse_text(number, part) for part in parts if part.strip())

    def by_last_head(number: int, text: str) -> LogLine:
        heads = list(grammar._HEADER.finditer(text))
        begin = text.rfind("(", 0, heads[-1].start()) if heads[1:] else 0
        return parse_text(number, text[max(begin, 0) :] if heads[1:] else text)

    parse_text = grammar._parse_text
    nothing = re.compile(r"(?!)")
    monkeypatch.setattr(grammar, "_parse_text", by_last_head)
    monkeypatch.setattr(whole_log, "redact", lambda text: text)
    monkeypatch.setattr(Quotes, "hold", lambda _self, _line: False)
    monkeypatch.setattr(asked, "is_quotation", lambda _line: False)
    monkeypatch.setattr(runs, "is_quotation", lambda _line: False)
    monkeypatch.setattr(findings, "is_admissible", lambda _raised, _row: True)
    monkeypatch.setattr(findings._Reader, "_is_json_log", lambda _self, _text: True)
    monkeypatch.setattr(Tracebacks, "finish", all_logged)
    monkeypatch.setattr(Prints, "sees", at_any_level)
    monkeypatch.setattr(grammar, "_overwritten", each_by_itself)
    monkeypatch.setattr(grammar, "_UVICORN_RECORD", nothing)
    monkeypatch.setattr(grammar, "_QUOTE", nothing)
    grammar._known_head.cache_clear()
