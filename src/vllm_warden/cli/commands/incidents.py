"""``vllm-warden incidents``: the history of failures, or one of them in full."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, cast

import click

from vllm_warden.cli.options import client_of, examples, json_option, objects, socket_option
from vllm_warden.cli.render import Style, columns, cut, duration, style_of_stdout
from vllm_warden.cli.story import (
    failure_lines,
    incident_story,
    proof_and_decision,
    proof_lines,
)
from vllm_warden.cli.wording import REMEDIES, failure_in_words

if TYPE_CHECKING:  # building the TypedDicts costs milliseconds that `status` can do without
    from vllm_warden.api.schema import FailureDocument, IncidentDocument


def register(app: click.Group) -> None:
    app.add_command(incidents)


@click.command(
    short_help="What failed, newest first; one incident in full.",
    epilog=examples("vllm-warden incidents", "vllm-warden incidents 7"),
)
@click.argument("number", metavar="[ID]", type=click.IntRange(min=1), required=False)
@json_option
@socket_option
def incidents(
    *,
    number: int | None,
    as_json: bool,
    socket: str | None,
) -> None:
    """List what failed, newest first; with an ID, one incident with its log excerpt."""
    client = client_of(socket)
    document = client.get("/v1/incidents" if number is None else f"/v1/incidents/{number}")
    if as_json:
        print(json.dumps(document, indent=2))
        return
    style, now = style_of_stdout(), time.time()
    if number is None:
        found = cast("list[IncidentDocument]", objects(document, "incidents"))
        print("\n".join(incident_table(found, now, style)) or "no incidents")
        return
    print("\n".join(_in_full(cast("IncidentDocument", document), now, style)))


def incident_table(found: list[IncidentDocument], now: float, style: Style) -> list[str]:
    """One line each: number, age, instance, what was decided, what failed."""
    rows = [
        (
            f"#{each['number']}",
            f"{duration(now - each['opened'])} ago",
            each["instance"],
            _how_far(each),
            _failure(each),
        )
        for each in found
    ]
    return [cut(line, style.width) for line in columns(rows)]


def _how_far(incident: IncidentDocument) -> str:
    if incident["resolved"] is not None:
        return "resolved"
    return "open" if incident["recovered"] is None else "recovered"


def _failure(incident: IncidentDocument) -> str:
    """How many failures there were, where more than one; the newest one and its decision."""
    newest = _all(incident)[-1]
    diagnosis, decision = newest["diagnosis"], newest["decision"]
    words = failure_in_words(diagnosis["failure"], diagnosis["phase"], diagnosis["site"])
    if decision:
        words += f": {REMEDIES.get(decision['remedy'], '?')}"
    return words if incident["failures"] == 1 else f"{incident['failures']} failures: {words}"


def _in_full(incident: IncidentDocument, now: float, style: Style) -> list[str]:
    """The newest failure first, as ``why`` tells it; then each one before in full."""
    *before, newest = _all(incident)
    lines = incident_story(incident, now, style) + _excerpt(newest, style)
    for failure in reversed(before):
        lines += ["", style.paint(f"Before: attempt {failure['attempt']}", "bold")]
        lines += failure_lines(failure, style) + proof_and_decision(failure, style)
        lines += _excerpt(failure, style)
    return lines


def _all(incident: IncidentDocument) -> list[IncidentDocument | FailureDocument]:
    return [incident, *incident["further"]]


def _excerpt(failure: IncidentDocument | FailureDocument, style: Style) -> list[str]:
    excerpt = failure.get("excerpt", [])
    if not excerpt:
        return []
    return ["", style.paint("From the log", "bold"), *proof_lines(excerpt, style)]
