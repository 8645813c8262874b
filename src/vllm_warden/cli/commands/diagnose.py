"""``vllm-warden diagnose``: why a vLLM died, from its log alone; no daemon, no configuration."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import click

from vllm_warden.adapters.log_source.file import (
    LogSource,
    UnreadableLogError,
    open_log,
    standard_input,
)
from vllm_warden.adapters.log_source.unit import (
    InvocationLog,
    find_invocation,
    running_invocation,
    unit_end,
    unit_name,
)
from vllm_warden.cli.exit_codes import ExitCode
from vllm_warden.cli.given_settings import given_settings
from vllm_warden.cli.options import examples, json_option
from vllm_warden.cli.progress import shown_progress
from vllm_warden.cli.render import Style, harmless, style_of_stdout, wrapped
from vllm_warden.cli.unit_evidence import evidence_of
from vllm_warden.cli.verdict import verdict
from vllm_warden.cli.wording import failure_in_words
from vllm_warden.core.decide.advice import advise
from vllm_warden.core.decide.decision import Decision
from vllm_warden.core.decide.document import decision_document
from vllm_warden.core.diagnose.document import document
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.diagnose.whole_log import DiagnosedRun, diagnosed_runs
from vllm_warden.core.model import Confidence, Failure, SettingValue


def register(app: click.Group) -> None:
    app.add_command(diagnose_command)


@click.command(
    "diagnose",
    epilog=examples(
        "vllm-warden diagnose engine.log",
        "docker logs vllm 2>&1 | vllm-warden diagnose -",
        "vllm-warden diagnose --unit vllm.service",
        "vllm-warden diagnose --json logs/*.log.gz",
    ),
)
@click.argument("files", nargs=-1, metavar="[FILE...|-]")
@click.option("--unit", metavar="UNIT", help="Read the journal of this systemd unit instead.")
@click.option(
    "--invocation",
    type=int,
    metavar="N",
    help="With --unit: -1 the newest start of the unit that has ended (default), -2 the one"
    " before, 0 the one that runs now.",
)
@click.option(
    "--all", "all_runs", is_flag=True, help="Diagnose every run in a log, not the last one only."
)
@click.option(
    "--engine",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting the engine ran with, where the log does not show it; repeatable.",
)
@json_option
def diagnose_command(
    *,
    files: tuple[str, ...],
    unit: str | None,
    invocation: int | None,
    all_runs: bool,
    engine: tuple[str, ...],
    as_json: bool,
) -> None:
    """Say why a vLLM died, from its log: what failed, in which phase, and the proof.

    Reads any log: files (also gzip, bzip2, xz), a pipe, standard input (-), or the journal of a
    unit; as vLLM printed it, or as journalctl (in any output format), docker, kubectl, compose,
    Ray, syslog or a terminal passed it on. Of several runs in one log the last is diagnosed.

    Exits 0 when a failure was found, 1 when there is none, 2 when a log cannot be read.
    """
    if bool(files) == (unit is not None):
        raise click.UsageError("give log files (- for standard input), or --unit UNIT")
    if invocation is not None and unit is None:
        raise click.UsageError("--invocation goes with --unit")
    settings = given_settings(engine)
    sources = _unit_source(unit, invocation) if unit else map(_file_source, files)
    answers = _Answers(all_runs=all_runs, as_json=as_json, settings=settings)
    try:
        sys.exit(answers.give(sources))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class _Named:
    """A log and what to call it; ``error`` instead where there is none to be had."""

    name: str
    log: LogSource | InvocationLog | None = None
    error: OSError | None = None
    known: Evidence = field(default_factory=lambda: Evidence(()))


def _file_source(path: str) -> _Named:
    name = path.encode("utf-8", "replace").decode()  # a name may be no text
    try:
        if path == "-":
            return _Named("-", standard_input(sys.stdin.buffer))
        return _Named(name, open_log(path))
    except OSError as error:
        return _Named(name, error=error)


def _unit_source(unit: str, offset: int | None) -> Iterator[_Named]:
    name = unit_name(unit)
    try:
        found = find_invocation(name, -1 if offset is None else offset, running_invocation(name))
        known = evidence_of(unit_end(found)) if found.offset < 0 else Evidence(())
        yield _Named(f"{name} (invocation {found.offset})", InvocationLog(found), known=known)
    except OSError as error:
        yield _Named(name, error=error)


@dataclass(frozen=True, slots=True)
class _Answers:
    """Prints one answer a log, or one a run, in order."""

    all_runs: bool
    as_json: bool
    settings: Mapping[str, SettingValue]
    style: Style = field(default_factory=style_of_stdout)

    def give(self, sources: Iterable[_Named]) -> int:
        """The exit code: an unreadable log outweighs what others show."""
        found = unreadable = False
        for position, source in enumerate(sources):
            if position and not self.as_json:
                print()
            try:
                found |= self._one(source)
            except OSError as error:
                unreadable = True
                _complain(source.name, error)
        if unreadable:
            return ExitCode.USAGE
        return ExitCode.OK if found else ExitCode.NO

    def _one(self, source: _Named) -> bool:
        if source.error is not None or source.log is None:
            raise source.error or OSError("nothing to read")
        chunks = shown_progress(source.name, source.log)
        found = False
        earlier: list[DiagnosedRun] = []
        last: DiagnosedRun | None = None
        for run in diagnosed_runs(chunks, source.known, self.settings):
            if self.all_runs:
                found |= self._print(source.name, run, [], is_only=False)
            elif last is not None and last.diagnosis.failure is not Failure.NONE:
                earlier = [*earlier[-9:], last]
            last = run
        if last is not None and not self.all_runs:
            found = self._print(source.name, last, earlier, is_only=last.number == 1)
        if source.log.damaged:
            print(f"vllm-warden: {source.name}: {source.log.damaged}", file=sys.stderr)
        return found

    def _print(
        self, name: str, run: DiagnosedRun, earlier: Sequence[DiagnosedRun], *, is_only: bool
    ) -> bool:
        has_failed = run.diagnosis.failure is not Failure.NONE
        decision = advise(run.diagnosis, run.evidence) if has_failed else None
        if self.as_json:
            print(json.dumps(_document(name, run, decision)), flush=True)
            return has_failed
        if self.all_runs and run.number > 1:
            print()
        title = name if is_only else f"{name}, run {run.number} (lines {_lines(run)})"
        lines = verdict(title, run, decision, self.style)
        if earlier:
            lines += [self.style.paint("Earlier runs in this log", "cyan")]
            for one in earlier:
                lines += wrapped(_in_short(one), self.style, "    ", "  - ")
            lines.append("  all of them in full: --all")
        print("\n".join(lines), flush=True)
        return has_failed


def _document(name: str, run: DiagnosedRun, decision: Decision | None) -> dict[str, object]:
    advice = decision_document(decision) if decision else None
    whole = document(run.diagnosis, advice)
    if run.diagnosis.failure is Failure.NONE and not run.has_records:
        whole |= {
            "confidence": Confidence.LIKELY.value,
            "summary": f"no vLLM record recognised in {harmless(name)}",
        }
    return {
        "file": name,
        "run": run.number,
        "first_line": run.first_line,
        "last_line": run.last_line,
        "around": list(run.around),
        **whole,
    }


def _lines(run: DiagnosedRun) -> str:
    return f"{run.first_line}-{run.last_line}"


def _in_short(run: DiagnosedRun) -> str:
    words = failure_in_words(run.diagnosis.failure, run.diagnosis.phase, run.diagnosis.site)
    return f"run {run.number}, lines {_lines(run)}: {words}"


def _complain(name: str, error: OSError) -> None:
    if isinstance(error, UnreadableLogError):
        reason, hint = error.reason, error.hint
    else:
        reason, hint = error.strerror or str(error), "give log files, or - for standard input"
    print(f"vllm-warden: cannot read {harmless(name)}: {reason}", file=sys.stderr)
    print(f"  {hint}", file=sys.stderr)
