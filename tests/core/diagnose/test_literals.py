"""What a regular expression needs to stand in a text."""

from __future__ import annotations

import re

import pytest

from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.literals import literals

CASES = [
    (r"one long literal", ("one long literal",)),
    (r"first alternative|second alternative", ("first alternative", "second alternative")),
    (r"in front of (?:a|b) short", ("in front of ",)),
    (r"x (?:Model Runner V|Hybrid manager)", ("Model Runner V", "Hybrid manager")),
    (r"it is \(much\) larger than \d{1,9} of them", ("it is (much) larger than ",)),
    (r"Application start[a-z]{0,9} complete", ("Application start",)),
    (r"Worker_process(?:_of_the_engine)? died", ("Worker_process",)),
    (r"the last letters?\b of a long text", ("the last letter",)),
    (r"(?P<name>named groups) and more of it", (" and more of it",)),
    (r"a text(?= that only looks ahead)", ()),
    (r"\d+ \w+", ()),
    (r"[Ee]ngine core is gone", ("ngine core is gone",)),
]


@pytest.mark.parametrize(("pattern", "texts"), CASES, ids=[case[0] for case in CASES])
def test_the_longest_text_of_each_alternative_is_taken(
    pattern: str, texts: tuple[str, ...]
) -> None:
    re.compile(pattern)
    assert literals(pattern) == texts


def test_every_pattern_of_the_catalogue_can_be_taken_apart() -> None:
    patterns = [getattr(row.detect, "pattern", None) for row in SIGNATURES]
    for pattern in filter(None, patterns):
        for text in literals(pattern.pattern):
            assert re.escape(text) in re.escape(pattern.pattern.replace("\\", ""))
