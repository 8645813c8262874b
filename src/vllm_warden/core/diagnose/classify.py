"""Gives one answer for one death: gathers all findings and lets the earliest cause decide."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vllm_warden.core.diagnose.company import in_company
from vllm_warden.core.diagnose.diagnosis import Diagnosis, ProofLine
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.diagnose.figures import Value, figures_of, gpu_of
from vllm_warden.core.diagnose.findings import AFTER_EVERYTHING, Finding, Reading, read
from vllm_warden.core.diagnose.phases import ORDER, LogFacts
from vllm_warden.core.diagnose.signature import Weight
from vllm_warden.core.diagnose.tracebacks import Raised
from vllm_warden.core.model import GIB, Confidence, Failure, Phase, Role
from vllm_warden.core.plain_text import one_line

PROOF_LINES_LIMIT = 8
CONSEQUENCE_LINES_LIMIT = 12
PROOF_TEXT_LIMIT = 2000
"""Characters of a proof line; torch's longest message has about 800."""

_NEWEST_KNOWN = (0, 33)
_SIGNAL = re.compile(r"exit code: -(\d{1,3})\b|\}?': -(\d{1,3})\b")


def diagnose(evidence: Evidence, records: Iterable[LogRecord] | None = None) -> Diagnosis:
    """Never raises on any text: what no row explains is ``unknown``.

    ``records`` are read instead of the evidence's own where a log is too long to be kept.

    Evidence of a supervised attempt (exit status, phase reached, readiness or a lost process
    known) is always a death; a bare log without a failure in it is ``none``.
    """
    reading = read(evidence, records)
    whole = reading.begins or _is_supervised(evidence) or not reading.announced
    whole = whole and not reading.cut  # who printed a call stack did not end without a word
    causes = in_company(
        [
            item
            for item in reading.findings
            if item.role is Role.CAUSE and (whole or not item.row.of_whole_log)
        ],
        died=_is_supervised(evidence) or bool(reading.unnamed),
    )
    decided = min(causes, key=lambda item: (item.weight, not item.spoken, item.line), default=None)
    if decided is not None and _was_asked(evidence, reading, decided):
        return _unexplained(evidence, reading, decided.row.summary)
    unnamed = _unnamed_cause(reading, decided)
    if unnamed is not None:
        return _unknown(evidence, reading, unnamed)
    if decided is not None:
        return _named(evidence, reading, decided)
    if reading.last_words and not _failed_unseen(reading):
        return _unknown(evidence, reading, reading.last_words[0])
    return _unexplained(evidence, reading)


def _was_asked(evidence: Evidence, reading: Reading, decided: Finding) -> bool:
    """Whether the log ends with a stop that its owner asked for: then nothing failed."""
    if not decided.row.asked or _is_supervised(evidence):
        return False
    return not any(one.line < decided.line for one in reading.unnamed)


def _unnamed_cause(reading: Reading, decided: Finding | None) -> Raised | None:
    """The first exception that no row names, where it outranks what was found."""
    if not reading.unnamed:
        return None
    first = reading.unnamed[0]
    if decided is None or decided.weight is Weight.HINT:
        return first
    if decided.weight < Weight.DEATH:
        return None
    return first if first.line < decided.line else None


def _named(evidence: Evidence, reading: Reading, decided: Finding) -> Diagnosis:
    same = [
        item
        for item in reading.findings
        if item.row is decided.row
        and item.role is Role.CAUSE
        and item.phase is decided.phase
        and item.spoken is decided.spoken
    ]
    overheard = _is_overheard(reading, decided)
    ranks = {item.rank for item in same if item.rank is not None}
    if decided.row.failure is Failure.KILLED_BY_SIGNAL:
        # whoever went first; the others were ended by the engine because of it
        ranks |= {lost.rank for lost in evidence.lost_processes[:1] if lost.rank is not None}
    figures, gpus = _figures(evidence, reading, decided, same)
    version = evidence.engine_version or reading.facts.engine_version
    return Diagnosis(
        failure=decided.row.failure,
        phase=_phase(evidence, reading, decided),
        site=decided.site,
        signature=decided.row.id,
        confidence=Confidence.LIKELY
        if overheard or (decided.raised is not None and decided.raised.guessed)
        else _confidence(decided, version),
        ranks=tuple(sorted(ranks)),
        gpus=gpus,
        figures=figures,
        evidence=_proof(same),
        consequences=_consequences(reading, decided),
        engine_version=version,
        summary=decided.row.summary,
        incomplete=evidence.incomplete,
        overheard=overheard,
    )


def _is_overheard(reading: Reading, decided: Finding) -> bool:
    """Whether the proof is text that any code in the engine's processes could have printed.

    An engine records what it dies of; only an API server that refuses its arguments ends with
    bare words, and so does an excerpt that shows no records at all.
    """
    if decided.spoken or not reading.has_records:
        return False
    return reading.phase not in (None, Phase.ARGS)


def _phase(evidence: Evidence, reading: Reading, decided: Finding) -> Phase | None:
    if decided.phase is not None:
        return decided.phase
    elsewhere = (item.phase for item in reading.findings if item.row is decided.row)
    if known := next(filter(None, elsewhere), None):
        return known
    if decided.row.failure is Failure.PORT_IN_USE:
        return Phase.ARGS
    if decided.row.id == "worker-vanished-at-start":
        return Phase.LOAD
    reached = evidence.reached if evidence.reached is not Phase.SHUTDOWN else Phase.SERVING
    return reading.place or reached or decided.row.usual


def _confidence(decided: Finding, version: str | None) -> Confidence:
    if decided.row.likely:
        return Confidence.LIKELY
    if version is not None:
        until = decided.row.until
        newest = _NEWEST_KNOWN if until is None else _release(until)
        if _release(version) > newest:
            return Confidence.EXTRAPOLATED
    return Confidence.CERTAIN


def _release(version: str) -> tuple[int, int]:
    """The first two numbers; zeros for what is no version."""
    numbers = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def _figures(
    evidence: Evidence, reading: Reading, decided: Finding, same: list[Finding]
) -> tuple[dict[str, Value], tuple[int, ...]]:
    raised = decided.raised
    figures = figures_of(raised.whole if raised else decided.text)
    gpus: set[int] = set()
    for item in same:
        gpu = gpu_of(item.raised.whole) if item.raised else None
        if gpu is not None:
            gpus.add(gpu)
    if decided.row.failure is Failure.KILLED_BY_SIGNAL:
        signal = _signal(evidence, decided)
        if signal is not None:
            figures["signal"] = signal
    if decided.row.failure is Failure.KV_CACHE_TOO_SMALL and "available_bytes" not in figures:
        available = reading.facts.available_kv_gib
        if available is not None:
            figures["available_bytes"] = round(available * GIB)
    return {**figures_of_log(reading.facts), **figures}, tuple(sorted(gpus))


def figures_of_log(facts: LogFacts) -> dict[str, Value]:
    """What the engine said of itself before it died; named apart from the failure's figures."""
    said: dict[str, Value | None] = {
        "weights_bytes": _bytes(facts.weights_gib),
        "available_kv_bytes": _bytes(facts.available_kv_gib),
        "kv_tokens": facts.kv_tokens,
        "max_concurrency": facts.max_concurrency,
        "graphs_bytes": _bytes(facts.graphs_gib),
        "graphs_estimated_bytes": _bytes(facts.graphs_estimated_gib),
        "graphs_captured": facts.graphs_captured,
        "graphs_sizes": facts.graphs_sizes,
    }
    return {name: value for name, value in said.items() if value is not None}


def _bytes(gib: float | None) -> int | None:
    return None if gib is None else round(gib * GIB)


def _signal(evidence: Evidence, decided: Finding) -> int | None:
    found = _SIGNAL.search(decided.text)
    if found:
        return int(found[1] or found[2])
    for lost in evidence.lost_processes:
        if lost.status is not None and lost.status < 0:
            return -lost.status
    status = evidence.exit_status
    return -status if status is not None and status < 0 else None


def _proof(findings: list[Finding]) -> tuple[ProofLine, ...]:
    return tuple(
        ProofLine(0 if item.line == AFTER_EVERYTHING else item.line, item.text[:PROOF_TEXT_LIMIT])
        for item in findings[:PROOF_LINES_LIMIT]
    )


def _consequences(reading: Reading, decided: Finding | None) -> tuple[ProofLine, ...]:
    """Everything else that was found, each line once."""
    seen: set[int] = {decided.line} if decided else set()
    lines = []
    for item in reading.findings:
        is_same = decided is not None and item.row is decided.row
        if item.line in seen or is_same or item.line == AFTER_EVERYTHING:
            continue
        seen.add(item.line)
        lines.append(ProofLine(item.line, item.text[:PROOF_TEXT_LIMIT]))
    return tuple(lines[:CONSEQUENCE_LINES_LIMIT])


def _unknown(evidence: Evidence, reading: Reading, raised: Raised) -> Diagnosis:
    """An exception that no row names: shown, and nothing more claimed."""
    return Diagnosis(
        failure=Failure.UNKNOWN,
        phase=raised.phase or raised.before or evidence.reached,
        confidence=Confidence.LIKELY,
        ranks=(raised.rank,) if raised.rank is not None else (),
        figures=figures_of_log(reading.facts),
        evidence=(ProofLine(raised.line, raised.proof[:PROOF_TEXT_LIMIT]),),
        consequences=_consequences(reading, None),
        engine_version=evidence.engine_version or reading.facts.engine_version,
        summary=f"An error that the catalogue does not know: {one_line(raised.text[:200])}",
        incomplete=evidence.incomplete,
    )


def _ending(phase: Phase | None) -> str:
    """How a log ends that shows no failure; a start that is cut off is no proof of health."""
    if phase is None or ORDER[phase] >= ORDER[Phase.SERVING]:
        return "The log shows no failure."
    return (
        f"The log shows no failure, but it ends while the engine starts ({phase}): it may be "
        "starting still, hang there, or have been killed with all its processes."
    )


def _is_supervised(evidence: Evidence) -> bool:
    """Whether somebody saw the engine die; a bare log may as well end with a stop by its owner."""
    return (
        evidence.exit_status is not None
        or evidence.reached is not None
        or evidence.was_ready
        or evidence.note is not None
    )


def _failed_unseen(reading: Reading) -> bool:
    """Whether wrappers or cut call stacks tell of a failure that the log does not show."""
    return reading.announced or bool(reading.cut)


def _unexplained(evidence: Evidence, reading: Reading, healthy: str | None = None) -> Diagnosis:
    """Nothing was found: a healthy log (``healthy`` says why it ended), or a silent death."""
    supervised = _is_supervised(evidence)
    phase = reading.place or evidence.reached
    unseen = healthy is None and _failed_unseen(reading)
    if not supervised and not unseen:
        failure, summary = Failure.NONE, healthy or _ending(phase)
    elif unseen:
        failure, summary = Failure.UNKNOWN, "Something failed, and the log does not show what."
    elif reading.stopped_at is not None:
        failure = Failure.KILLED_BY_SIGNAL
        summary = "The engine was told to stop, but not by the warden."
    else:
        failure, summary = Failure.UNKNOWN, "The engine ended without saying why."
    return Diagnosis(
        failure=failure,
        phase=None if failure is Failure.NONE else phase,
        signature="stopped-from-outside" if failure is Failure.KILLED_BY_SIGNAL else None,
        confidence=Confidence.CERTAIN if failure is Failure.NONE else Confidence.LIKELY,
        figures=figures_of_log(reading.facts),
        consequences=_consequences(reading, None),
        engine_version=evidence.engine_version or reading.facts.engine_version,
        summary=summary,
        incomplete=evidence.incomplete,
    )
