"""Diagnoses a log of any length, as bytes from anywhere: each run in it, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from vllm_warden.core.diagnose.asked import asked_settings
from vllm_warden.core.diagnose.classify import diagnose
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.envelopes.undo import undone
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.diagnose.grammar import parse
from vllm_warden.core.diagnose.long_line import shortened
from vllm_warden.core.diagnose.ordinary import extraordinary
from vllm_warden.core.diagnose.redact import redact
from vllm_warden.core.diagnose.runs import runs
from vllm_warden.core.model import SettingValue

_SETTINGS_WITHIN = 400
"""An engine says its arguments in one of its first lines; what comes later may quote users."""
_RECORDS_LOOKED_AT = 200_000
"""vLLM writes a record in its first lines; a file without one so far has none."""


@dataclass(frozen=True, slots=True)
class DiagnosedRun:
    """What is known of one run of a log: ``number`` and lines count from 1.

    ``evidence`` is that of the diagnosis without its records. ``has_records`` is False where no
    line has the form of a record of vLLM's own loggers. ``around`` names what was taken off the
    log, outermost first.
    """

    number: int
    first_line: int
    last_line: int
    diagnosis: Diagnosis
    evidence: Evidence
    has_records: bool
    around: tuple[str, ...] = ()


def diagnosed_runs(
    chunks: Iterable[bytes],
    known: Evidence | None = None,
    settings: Mapping[str, SettingValue] | None = None,
) -> Iterator[DiagnosedRun]:
    """Each run, as soon as its end is read; an empty log is one run of no line.

    ``known`` is what is known of the death beside the log, if the log is one run's; ``settings``
    are taken for what the engine was started with, over what the log says of that.
    """
    around: list[str] = []
    number = 0
    for number, run in enumerate(runs(log_records(chunks, around)), 1):
        yield _diagnosed(number, run, around, known or Evidence(()), settings or {})
    if not number:
        yield _diagnosed(1, iter(()), around, known or Evidence(()), settings or {})


def log_records(chunks: Iterable[bytes], around: list[str] | None = None) -> Iterator[LogRecord]:
    """The log's lines without what is around them, redacted; ordinary ones are left out."""
    for number, line, dropped_bytes in extraordinary(undone(chunks, around)):
        yield LogRecord(number, redact(shortened(line, dropped_bytes)))


def _diagnosed(
    number: int,
    run: Iterator[LogRecord],
    around: list[str],
    known: Evidence,
    settings: Mapping[str, SettingValue],
) -> DiagnosedRun:
    begin = _begin(run)
    asked = {**asked_settings(begin), **settings}
    seen = _Seen(chain(begin, run))
    first = begin[0].number if begin else 0
    begin = []
    evidence = replace(known, records=(), settings=asked)
    diagnosis = diagnose(evidence, seen)
    return DiagnosedRun(
        number=number,
        first_line=first,
        last_line=seen.last_line,
        diagnosis=diagnosis,
        evidence=evidence,
        has_records=seen.has_records,
        around=tuple(around),
    )


def _begin(run: Iterator[LogRecord]) -> list[LogRecord]:
    begin: list[LogRecord] = []
    for record in run:
        begin.append(record)
        if record.number - begin[0].number + 1 >= _SETTINGS_WITHIN:
            break
    return begin


class _Seen:
    """Passes records on and remembers what they were."""

    def __init__(self, records: Iterable[LogRecord]) -> None:
        self._records = records
        self.last_line = 0
        self.has_records = False

    def __iter__(self) -> Iterator[LogRecord]:
        left = _RECORDS_LOOKED_AT
        for record in self._records:
            self.last_line = record.number
            if not self.has_records and left:
                left -= 1
                self.has_records = is_of_vllm(record)
            yield record


def is_of_vllm(record: LogRecord) -> bool:
    """True when some line has the form of a record of vLLM's own loggers."""
    return any(line.source for line in parse(record.number, record.text))
