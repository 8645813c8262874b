"""No line, however long and whoever wrote it, makes a regular expression of the diagnosis slow."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.core.diagnose.hostile_lines import LINE_CHARACTERS, patterns, repeated, slowest_units
from vllm_warden.core.diagnose.asked import asked_settings
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.diagnose.figures import figures_of
from vllm_warden.core.diagnose.phases import PhaseTracker
from vllm_warden.core.diagnose.redact import redact
from vllm_warden.core.diagnose.whole_log import diagnosed_runs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SLOWER_MAX = 20
"""Times the plain line; what grows with the square of a line would take thousands."""
PLAIN = "The token of a prompt is no secret key: 'a word' and 12 more. "

HEAD = "(EngineCore_DP0 pid=2) ERROR 11-29 16:20:00 [core.py:500] "
ARGUMENTS = "(APIServer pid=1) INFO 11-29 16:20:00 [api_utils.py:500] non-default args: {'a': "
FRONTS = ["", HEAD, HEAD + "RuntimeError: ", ARGUMENTS, '{"levelname": "ERROR", "message": "']
LINE_KEPT = 16_000
"""What is kept of a line: there a slow expression shows, so some lines have this length."""


def whole_line(text: str) -> object:
    return list(diagnosed_runs([text.encode("utf-8", "replace") + b"\n"]))


def one_record(text: str) -> object:
    return diagnose(Evidence((LogRecord(1, HEAD + "RuntimeError: " + text),)))


def kept_lines(text: str) -> object:
    lines = [front + text[: LINE_KEPT - len(front)] for front in FRONTS]
    return list(diagnosed_runs(["\n".join([*lines, ""]).encode("utf-8", "replace")]))


ENTRIES: dict[str, Callable[[str], object]] = {
    "diagnosed_runs": whole_line,
    "diagnose": one_record,
    "kept lines": kept_lines,
    "redact": redact,
    "PhaseTracker.feed": lambda text: PhaseTracker().feed(text),
    "figures_of": figures_of,
}


def seconds(entry: Callable[[str], object], text: str) -> float:
    begin = time.process_time()
    entry(text)
    return time.process_time() - begin


def test_no_pattern_makes_a_line_of_a_megabyte_slow() -> None:
    plain = repeated(PLAIN)
    usual = {name: min(seconds(one, plain) for _ in range(3)) for name, one in ENTRIES.items()}
    # one pass over the line is always allowed: some entries look at its begin only
    floor = usual["diagnosed_runs"]
    found = patterns()
    assert len(found) > 150
    slow = []
    for where, pattern in found.items():
        for unit in slowest_units(pattern, 1):
            text = repeated(unit)
            for name, entry in ENTRIES.items():
                limit = SLOWER_MAX * max(usual[name], floor)
                if seconds(entry, text) > limit and seconds(entry, text) > limit:
                    slow.append((name, where, unit[:80]))
    assert slow == []


def test_a_fuzzed_line_is_as_long_as_promised() -> None:
    assert len(repeated("ab")) == LINE_CHARACTERS == 1 << 20


@pytest.mark.parametrize("unit", ["'\\", '"\\', "'", "['", "{'a': ", "(" * 50 + "'"])
def test_settings_that_are_never_closed_are_read_in_linear_time(unit: str) -> None:
    def read(characters: int) -> float:
        line = (ARGUMENTS + repeated(unit, characters))[:characters]
        log = (LogRecord(1, line),)
        return min(seconds(lambda _: asked_settings(log), "") for _ in range(3))

    assert read(16_000) < 8 * max(read(4_000), 0.001)
