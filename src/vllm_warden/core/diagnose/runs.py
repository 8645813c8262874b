"""Finds the last run in a log that holds several, as a unit's journal does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vllm_warden.core.diagnose.evidence import LogRecord

START = re.compile(
    r"\.py:\d{1,6}\] non-default args: |^usage: vllm\b|\"message\": \"non-default args: "
)
"""vLLM's API server says its arguments once per run; argparse refuses with its usage instead."""
LOOK_AT = 240
BEFORE_MAX = 12
"""Lines that a run prints before its arguments (imports, banner, version)."""
END = re.compile(
    r"Application shutdown complete|Engine core initialization failed|^\S*Error: |error: argument |"
    r"error: unrecognized"
)


def last_run(records: Sequence[LogRecord]) -> tuple[Sequence[LogRecord], int]:
    """The records of the last run, and how many runs the log holds (0 where none begins in it)."""
    starts = [
        index for index, record in enumerate(records) if START.search(record.text, 0, LOOK_AT)
    ]
    if len(starts) < 2:
        return records, len(starts)
    first = starts[-1]
    for index in range(first - 1, max(first - 1 - BEFORE_MAX, starts[-2]), -1):
        if END.search(records[index].text):
            break
        first = index
    return records[first:], len(starts)
