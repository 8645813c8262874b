"""``vllm-warden explain``: what a failure means, how it is recognised, what helps and what not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import click

from vllm_warden.cli.exit_codes import ExitCode
from vllm_warden.cli.options import examples, json_option
from vllm_warden.cli.render import Style, harmless, style_of_stdout, wrapped
from vllm_warden.cli.wording import FAILURES, PHASES, REMEDIES, SITES
from vllm_warden.core.decide.explained import (
    failure_document,
    rows_of,
    signature_document,
)
from vllm_warden.core.decide.explanation import Place, Treatment, treatments
from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.meanings import MEANINGS
from vllm_warden.core.diagnose.recognised import recognised
from vllm_warden.core.diagnose.signature import Signature
from vllm_warden.core.model import Failure, Role

_ROWS = {row.id: row for row in SIGNATURES}


def register(app: click.Group) -> None:
    app.add_command(explain_command)


@click.command(
    "explain",
    epilog=examples(
        "vllm-warden explain",
        "vllm-warden explain gpu_out_of_memory",
        "vllm-warden explain sampler-warmup-oom --json",
    ),
)
@click.argument("subject", required=False)
@json_option
def explain_command(*, subject: str | None, as_json: bool) -> None:
    """Say what a failure means, how it is recognised, which settings help and which do not.

    Takes a failure or a signature as `diagnose` and `why` name them; without one, lists all.
    """
    sys.exit(explain(subject, as_json=as_json))


def explain(subject: str | None, *, as_json: bool) -> int:
    """Print the entry, or the list of all; returns the exit code."""
    style = style_of_stdout()
    if subject is None:
        everything = {"failures": [failure_document(failure) for failure in Failure]}
        print(json.dumps(everything) if as_json else "\n".join(_all(style)))
        return ExitCode.OK
    name = subject.strip().lower()
    if name in set(Failure):
        failure = Failure(name)
        print(
            json.dumps(failure_document(failure))
            if as_json
            else "\n".join(_failure(failure, style))
        )
        return ExitCode.OK
    if name in _ROWS:
        row = _ROWS[name]
        print(json.dumps(signature_document(row)) if as_json else "\n".join(_row(row, style)))
        return ExitCode.OK
    what = harmless(subject)
    print(f"vllm-warden: cannot explain {what}: no such failure or signature", file=sys.stderr)
    print("  `vllm-warden explain` lists them all", file=sys.stderr)
    return ExitCode.USAGE


def _all(style: Style) -> Iterator[str]:
    for failure in Failure:
        yield from _title(failure, FAILURES[failure], style)
        names = ", ".join(row.id for row in rows_of(failure))
        yield from wrapped(names or "by no signature of its own", style, "    ")
    yield "only following from something else:"
    consequences = [row.id for row in SIGNATURES if row.role is Role.CONSEQUENCE]
    yield from wrapped(", ".join(consequences), style, "    ")


def _title(name: str, words: str, style: Style) -> Iterator[str]:
    first, *others = wrapped(f"{name}: {words}", style, "    ", "")
    yield style.paint(name, "bold") + first.removeprefix(name)
    yield from others


def _failure(failure: Failure, style: Style) -> Iterator[str]:
    yield from _title(failure, FAILURES[failure], style)
    yield from wrapped(MEANINGS[failure], style, "  ")
    yield from _treatments(treatments(failure), style)
    rows = rows_of(failure)
    if rows:
        yield "recognised by:"
    for row in rows:
        yield f"  {style.paint(row.id, 'bold')}"
        yield from _details(row, style)


def _row(row: Signature, style: Style) -> Iterator[str]:
    decides = row.role is Role.CAUSE
    of = f"a sign of {row.failure}" if decides else "only follows from something else"
    yield from _title(row.id, of, style)
    yield from _details(row, style)
    if decides:
        yield from _treatments(treatments(row.failure, row), style)


def _details(row: Signature, style: Style) -> Iterator[str]:
    yield from wrapped(row.summary, style, "    ")
    yield from wrapped(f"seen as: {recognised(row)}", style, "      ", "    ")
    yield from wrapped(f"caution: {row.caution}", style, "      ", "    ")
    releases = [f"{word} {it}" for word, it in (("from", row.since), ("up to", row.until)) if it]
    if releases:
        yield f"    vLLM {' '.join(releases)}"


def _treatments(answers: tuple[Treatment, ...], style: Style) -> Iterator[str]:
    yield "what is done, and what helps:"
    for one in answers:
        yield from wrapped(f"{REMEDIES[one.remedy]}: {one.reason}", style, "    ", "  - ")
        if len(answers) > 1:
            yield from wrapped(f"when: {when(one)}", style, "      ", "    ")
        moves = [f"lowers {name}" for name in one.lowered]
        moves += [f"raises {name}" for name in one.raised]
        if moves:
            yield from wrapped(f"helps: {', '.join(moves)}", style, "      ", "    ")
        for useless in one.useless:
            yield from wrapped(f"no use: {useless.setting}: {useless.why}", style, "      ", "    ")
        if one.options:
            yield "    you could choose:"
        for option in one.options:
            yield from wrapped(option, style, "        ", "      - ")


def when(one: Treatment) -> str:
    """In which phases, for what, and under which condition; or by which signatures."""
    places = "; ".join(dict.fromkeys(_place(place) for place in one.places))
    if all(place.phase is None for place in one.places):
        return f"seen by {', '.join(one.signatures)}" if one.signatures else places
    return places


def _place(place: Place) -> str:
    words = [PHASES[place.phase] if place.phase else "any other phase"]
    if place.site:
        words.append(f"for {SITES[place.site]}")
    if place.condition:
        words.append(place.condition)
    return ", ".join(words)
