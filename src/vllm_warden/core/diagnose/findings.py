"""Reads a log once and collects everything in it that a catalogue row recognises."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vllm_warden.core.diagnose.admissible import is_admissible, may_be_unnamed_cause
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.detect import Allocation, Counted, Prints, RaisedUnder, Raises
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.diagnose.grammar import (
    LINE_LIMIT,
    LINES_PER_RECORD,
    LogLine,
    looks_like_json,
    parse,
)
from vllm_warden.core.diagnose.introductions import FATAL
from vllm_warden.core.diagnose.phases import SERVED, LogFacts, PhaseTracker
from vllm_warden.core.diagnose.places import site_of
from vllm_warden.core.diagnose.placing import agreed_phase, place
from vllm_warden.core.diagnose.quoted import Quotes
from vllm_warden.core.diagnose.signature import Signature, Weight
from vllm_warden.core.diagnose.silence import STATES, Silence
from vllm_warden.core.diagnose.tracebacks import Raised, Tracebacks
from vllm_warden.core.model import Failure, Phase, Role, Site

AFTER_EVERYTHING = 1 << 60
"""Line number of facts that are not in the log: they come behind all text of equal weight."""

_ON_RAISED = tuple(
    row for row in SIGNATURES if isinstance(row.detect, Raises | RaisedUnder | Allocation)
)
_WHERE_ALONE = tuple(
    row for row in _ON_RAISED if isinstance(row.detect, RaisedUnder) and not row.detect.kinds
)
_HINTED = tuple(
    (row, row.detect.hint if isinstance(row.detect, Raises) else "") for row in _ON_RAISED
)
"""With what the text must hold: a hundred rows are asked of each exception of each rank."""
_ON_LINES = tuple((row, row.detect) for row in SIGNATURES if isinstance(row.detect, Prints))
_COUNTED = tuple((row, row.detect) for row in SIGNATURES if isinstance(row.detect, Counted))
_BEGINS = tuple(text for _, detect in _ON_LINES if not detect.within for text in detect.begins)
_WITHIN = tuple(text for _, detect in _ON_LINES if detect.within for text in detect.begins)

_TEXT_RECORDS_BEFORE_JSON = 20
"""Records that vLLM may print as text before its JSON formatter is in place."""

_JSON_ERROR = re.compile(r'"levelname": ?"(?:ERROR|CRITICAL)"')

_OF_A_ROW = 200
"""Lines of one log that one row may find: the first decides, and a log has no end."""
_LINES_SAVED = 4000
_LINES_EACH = 40
"""Records of many lines share what the records before them left, so that the time for a log grows
with the number of its records; eight ranks that die at once print some 2,400 lines."""

_FIRST = (Phase.ARGS, Phase.INIT_DEVICE)
_STOPS: dict[Phase | None, tuple[str, ...]] = {
    Phase.SERVING: ("Shutting down", "[shutdown] API server: shutdown triggered"),
    None: ("Shutting down", "[shutdown] API server: "),
}
"""How an orderly stop begins; an excerpt may show no phase."""
_BARS = ("Loading safe", "Capturing")
_WELL = ("INFO", "DEBUG")
_HOLDS_ONE_THING = frozenset({Phase.LOAD, Phase.KV_ALLOC})


@dataclass(frozen=True, slots=True)
class Finding:
    """One row that matched, and where. ``raised`` is None for lines and counted facts."""

    row: Signature
    line: int
    text: str
    role: Role
    phase: Phase | None = None
    site: Site | None = None
    raised: Raised | None = None
    rank: int | None = None
    spoken: bool = True
    """False for text without a record of the engine's: any code in its processes may print it."""

    @property
    def weight(self) -> Weight:
        return self.row.weight


@dataclass(slots=True)
class Reading:
    """What one pass over the log yields. ``stopped_at`` is where an orderly stop began."""

    findings: list[Finding]
    unnamed: list[Raised]
    """Exceptions without a row: those that the engine recorded first, in the log's order."""
    facts: LogFacts
    phase: Phase | None
    stopped_at: int | None
    ended_orderly: bool
    has_records: bool = False
    """Whether the log shows the engine's own records at all; an excerpt may not."""
    cut: Sequence[Raised] = ()
    """Call stacks that the engine recorded, and of which the exception is missing."""

    begins: bool = False
    """Whether the log shows the start of a run: then silence of a process is its own."""
    last_words: Sequence[Raised] = ()
    """Bare exceptions of a serving engine behind which nobody said anything healthy any more."""

    @property
    def announced(self) -> bool:
        """Whether some process said that another, or it itself, had failed."""
        return any(
            item.role is Role.CONSEQUENCE
            and item.row.announces
            and not _is_after(item.line, self.stopped_at)
            for item in self.findings
        )

    @property
    def place(self) -> Phase | None:
        """Where the log was when it ended; failing that, what its cut call stacks agree on."""
        return self.phase or agreed_phase(self.cut)


def read(evidence: Evidence, records: Iterable[LogRecord] | None = None) -> Reading:
    """One pass over the records, then one over the exceptions found in them."""
    reader = _Reader()
    reader.take(evidence.records if records is None else records)
    tracker = reader.tracker
    phase = tracker.before_shutdown or tracker.phase
    phase = None if phase is Phase.SHUTDOWN else phase
    raised = reader.tracebacks.finish()
    cut = _cut(reader)
    findings = [*reader.lasting(), *_counted(evidence, phase)]
    findings += [
        _finding(row, one, after_stop=False)
        for one in cut
        for row in _WHERE_ALONE
        if row.detect.sees(one)  # type: ignore[union-attr,arg-type]
    ]
    elsewhere = None if phase else agreed_phase(cut)
    unnamed: list[Raised] = []
    last_words: list[Raised] = []
    overheard: list[Finding] = []
    for one in raised:
        place(one, elsewhere)
        if one.type == FATAL:
            findings = [_at_stack(item, one) for item in findings]
            continue
        text = one.text
        matches = [row for row, hint in _HINTED if hint in text and row.detect.sees(one)]  # type: ignore[union-attr,arg-type]
        admitted = [row for row in matches if is_admissible(one, row)]
        role_after = _is_after(one.line, reader.stopped_at)
        findings += [_finding(row, one, after_stop=role_after) for row in admitted]
        if not matches and may_be_unnamed_cause(one) and not role_after:
            unnamed.append(one)
        if _is_last_word(one, reader):
            last_words.append(one)
            overheard += [_finding(row, one, after_stop=False) for row in matches]
    if not unnamed and not any(item.role is Role.CAUSE for item in findings):
        findings += overheard
    findings.sort(key=lambda item: item.line)
    unnamed.sort(key=lambda item: not item.logged)
    return Reading(
        findings,
        unnamed,
        tracker.facts,
        phase,
        reader.stopped_at,
        reader.ended_orderly,
        has_records=reader.in_json or reader.text_records > 0,
        cut=cut,
        begins=tracker.first in _FIRST,
        last_words=last_words,
    )


def _is_last_word(raised: Raised, reader: _Reader) -> bool:
    """Whether a bare exception of nobody is the end of a serving engine's log.

    From vLLM 0.31 on uncaught tracebacks have no prefix. Anything may print such lines, so they
    count only where nothing else tells of a failure and nothing healthy follows.
    """
    if not raised.bare or raised.process or raised.before not in SERVED:
        return False
    return reader.stopped_at is None and raised.line > reader.alive_at


def _cut(reader: _Reader) -> list[Raised]:
    cut = [one for one in reader.tracebacks.cut if may_be_unnamed_cause(one)]
    for one in cut:
        place(one, None)
    return [one for one in cut if not _is_after(one.line, reader.stopped_at)]


def _at_stack(item: Finding, fatal: Raised) -> Finding:
    """A fatal signal's line with the phase of the stack that faulthandler printed below it."""
    if item.line != fatal.line or item.row.phase is not None or fatal.phase is None:
        return item
    return replace(item, phase=fatal.phase)


class _Reader:
    def __init__(self) -> None:
        self.tracker = PhaseTracker()
        self.tracebacks = Tracebacks()
        self.findings: list[Finding] = []
        self.counts: Counter[str] = Counter()
        self.stopped_at: int | None = None
        self.ended_orderly = False
        self.servers: set[str] = set()
        self.quotes = Quotes()
        self.silence = Silence()
        self.text_records = 0
        self.alive_at = 0
        """Line of the last record below WARNING: somebody was well then."""
        self.in_json = False

    def take(self, records: Iterable[LogRecord]) -> None:
        saved = _LINES_SAVED
        for record in records:
            text = record.text
            if looks_like_json(text) and not self._is_json_log(text):
                continue  # a record in a form that this engine does not write is somebody else's
            lines_max = min(LINES_PER_RECORD, saved)
            lines = 0
            for line in parse(record.number, text, lines_max=lines_max):
                lines += 1
                self._line(line)
            saved = min(_LINES_SAVED, saved - lines + _LINES_EACH)

    def lasting(self) -> list[Finding]:
        """What was found in lines, without a silence that ended."""
        lasts = self.silence.lasts
        return [item for item in self.findings if lasts or not item.row.in_silence]

    def _is_json_log(self, text: str) -> bool:
        """Whether the attempt's log began in JSON: only then a record in that form is its own.

        No engine begins with an error, so an error in JSON behind text is somebody else's.
        """
        if not self.in_json and self.text_records <= _TEXT_RECORDS_BEFORE_JSON:
            begins = not self.text_records or not _JSON_ERROR.search(text, 0, LINE_LIMIT)
            self.in_json = begins and self.tracker.phase not in SERVED
        return self.in_json

    def _line(self, line: LogLine) -> None:
        message = line.message
        file = line.file
        if file is not None:
            self.text_records += not self.in_json
            if line.level in _WELL:
                self.alive_at = line.number
        if self.quotes.hold(line):
            return
        before = self.tracker.before_shutdown or self.tracker.phase
        is_bar = message.startswith(_BARS)  # goes on whatever traceback is open
        if not is_bar and self.tracebacks.feed(line, before):
            return
        if file is not None or is_bar:
            self.tracker.feed_message(message)
            self._watch_for_stop(line, before)
            if message.startswith(STATES):
                self.silence.feed(message)
        if message.startswith(_BEGINS) or any(text in message for text in _WITHIN):
            self._match(line, before)

    def _watch_for_stop(self, line: LogLine, before: Phase | None) -> None:
        message = line.message
        if message.startswith("Application startup complete"):
            self.servers.add(line.process)
        if self.servers and line.process not in self.servers:
            return  # what another process prints stops no server
        if message.startswith("Application shutdown complete"):
            self.ended_orderly = True
        if self.stopped_at is not None or before not in _STOPS:
            return
        if message.startswith(_STOPS[before]):
            self.stopped_at = line.number

    def _match(self, line: LogLine, before: Phase | None) -> None:
        for row, detect in _ON_LINES:
            if not detect.sees(line) or (line.level is None and before in SERVED and row.phase):
                continue
            if row.in_silence and not self.silence.lasts:
                continue
            after = _is_after(line.number, self.stopped_at)
            phase = row.phase or before
            self.counts[row.id] += 1
            if self.counts[row.id] > _OF_A_ROW and not row.in_silence:
                continue
            self.findings.append(
                Finding(
                    row,
                    line.number,
                    line.message,
                    Role.CONSEQUENCE if after else row.role,
                    phase,
                    row.site,
                    rank=_rank_in(line.message),
                    spoken=line.level is not None,
                )
            )


def _rank_in(message: str) -> int | None:
    _, _, behind = message.partition("VllmWorker-")
    digits = behind[:5].split(" ")[0].rstrip(",")
    return int(digits) if digits.isdigit() else None


def _is_after(line: int, stopped_at: int | None) -> bool:
    return stopped_at is not None and line > stopped_at


def _counted(evidence: Evidence, phase: Phase | None) -> list[Finding]:
    found = []
    for row, detect in _COUNTED:
        proof = detect.proof(evidence)
        if proof is not None:
            line = 0 if row.weight is Weight.COUNTED else AFTER_EVERYTHING
            place = evidence.reached if evidence.reached is not Phase.SHUTDOWN else None
            where = row.phase or place or phase
            site = site_of(where, ()) if where in _HOLDS_ONE_THING else None
            site = site if row.failure is Failure.HOST_OUT_OF_MEMORY else None
            found.append(Finding(row, line, proof, row.role, where, site))
    return found


def _finding(row: Signature, raised: Raised, *, after_stop: bool) -> Finding:
    phase, site = raised.phase, raised.site
    if phase is None:
        phase, site = raised.before, site_of(raised.before, raised.functions)
    return Finding(
        row,
        raised.line,
        raised.proof,
        Role.CONSEQUENCE if after_stop else row.role,
        row.phase or phase,
        row.site or (site if isinstance(row.detect, Allocation) else None),
        raised,
        raised.rank,
        spoken=raised.logged,
    )
