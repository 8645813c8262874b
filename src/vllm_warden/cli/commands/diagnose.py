"""``vllm-warden diagnose``: why a vLLM died, from its log alone; no daemon, no configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from vllm_warden.cli.exit_codes import ExitCode
from vllm_warden.cli.options import examples, json_option
from vllm_warden.cli.render import harmless, size, style_of_stdout, value, wrapped
from vllm_warden.cli.wording import failure_in_words
from vllm_warden.core.decide.advice import advise
from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.decide.document import decision_document
from vllm_warden.core.diagnose.asked import asked_settings
from vllm_warden.core.diagnose.classify import diagnose as find_cause
from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.document import document
from vllm_warden.core.diagnose.evidence import Evidence, LogRecord
from vllm_warden.core.diagnose.grammar import parse
from vllm_warden.core.diagnose.redact import redact
from vllm_warden.core.diagnose.runs import last_run
from vllm_warden.core.model import Confidence, Failure

FILE_BYTES_LIMIT = 256 << 20
"""Of a longer log only the end is read: the death stands there."""
RECORDS_LOOKED_AT = 200_000
"""vLLM writes a record in its first lines; a file without one so far has none."""


def register(app: click.Group) -> None:
    app.add_command(diagnose_command)


@click.command(
    "diagnose",
    epilog=examples(
        "vllm-warden diagnose engine.log",
        "journalctl -u vllm -o cat | vllm-warden diagnose --json -",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@json_option
def diagnose_command(*, files: tuple[str, ...], as_json: bool) -> None:
    """Say why a vLLM died, from its log: what failed, in which phase, and the proof.

    Exits 0 when a failure was found, 1 when there is none, 2 when a file cannot be read.
    """
    sys.exit(diagnose(files, as_json=as_json))


def diagnose(files: Sequence[str], *, as_json: bool) -> int:
    """Diagnose each file in order and print the answers; returns the exit code."""
    found = False
    for position, name in enumerate(files):
        try:
            evidence, run = evidence_of(name)
        except OSError as error:
            print(f"vllm-warden: cannot read {name}: {error.strerror or error}", file=sys.stderr)
            print("  give log files that exist, or - for standard input", file=sys.stderr)
            return ExitCode.USAGE
        diagnosis = _of_what_was_recognised(find_cause(evidence), evidence, name)
        has_failed = diagnosis.failure is not Failure.NONE
        decision = advise(diagnosis, evidence) if has_failed else None
        found = found or has_failed
        if as_json:
            advice = decision_document(decision) if decision else None
            whole = {"file": name, **document(diagnosis, advice)}
            print(json.dumps(whole | {"run": run} if run else whole), flush=True)
        else:
            if position:
                print()
            print(
                "\n".join(_lines(f"{name} ({run})" if run else name, diagnosis, decision)),
                flush=True,
            )
    return ExitCode.OK if found else ExitCode.NO


def evidence_of(name: str) -> tuple[Evidence, str]:
    """What a log alone tells of its last run, and which run that is. Raises OSError."""
    if name == "-":
        data = sys.stdin.buffer.read(FILE_BYTES_LIMIT)
    else:
        with Path(name).open("rb") as file:
            length = file.seek(0, 2)
            file.seek(max(0, length - FILE_BYTES_LIMIT))
            data = file.read(FILE_BYTES_LIMIT)
    lines = data.decode("utf-8", "replace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    raw = [LogRecord(number, line) for number, line in enumerate(lines, 1)]
    last, runs = last_run(raw)
    records = tuple(LogRecord(record.number, redact(record.text)) for record in last)
    note = f"the last of {runs} runs in this log, from line {records[0].number}" if runs > 1 else ""
    return Evidence(records=records, settings=asked_settings(records)), note


def _of_what_was_recognised(diagnosis: Diagnosis, evidence: Evidence, name: str) -> Diagnosis:
    """Nothing found in a file that is no log of vLLM's does not mean that nothing failed."""
    if diagnosis.failure is not Failure.NONE or has_records(evidence.records):
        return diagnosis
    return replace(
        diagnosis,
        confidence=Confidence.LIKELY,
        summary=f"no vLLM record recognised in {harmless(name)}",
    )


def has_records(records: Sequence[LogRecord]) -> bool:
    """True when some line has the form of a record of vLLM's own loggers."""
    return any(
        line.source
        for record in records[:RECORDS_LOOKED_AT]
        for line in parse(record.number, record.text)
    )


def _lines(name: str, diagnosis: Diagnosis, decision: Decision | None) -> list[str]:
    style = style_of_stdout()
    words = failure_in_words(diagnosis.failure, diagnosis.phase, diagnosis.site)
    if diagnosis.failure is Failure.NONE and diagnosis.confidence is Confidence.LIKELY:
        return [diagnosis.summary]
    lines = [f"{name}: {style.paint(words, 'bold')}"]
    lines += wrapped(harmless(diagnosis.summary), style, "  ")
    facts = [f"confidence {diagnosis.confidence}"]
    if diagnosis.engine_version:
        facts.append(f"vLLM {diagnosis.engine_version}")
    facts += [f"rank {rank}" for rank in diagnosis.ranks]
    facts += [f"GPU {gpu} as the engine sees it" for gpu in diagnosis.gpus]
    if diagnosis.failure is not Failure.NONE:
        lines.append("  " + ", ".join(facts))
    for proof in diagnosis.evidence:
        lines += wrapped(harmless(proof.text), style, "      ", f"  {proof.line:>5}| ")
    for figure, number in diagnosis.figures.items():
        shown = size(number) if figure.endswith("_bytes") and isinstance(number, int) else number
        lines.append(f"  {figure} = {harmless(str(shown))}")
    if decision is not None:
        lines += wrapped(
            f"advice: {decision.remedy.replace('_', ' ')}: {decision.reason}", style, "  "
        )
        lines += [
            f"    {change.setting}: {value(change.before)} -> {value(change.after)}"
            for change in decision.changes
        ]
        for one in decision.useless:
            lines += wrapped(f"no use: {one.setting}: {one.why}", style, "      ", "    ")
    return lines
