"""``vllm-warden incidents``: the history of failures, or one of them in full."""

from __future__ import annotations

import json
import time
from typing import Annotated, cast

import typer

from vllm_warden.api.schema import IncidentDocument
from vllm_warden.cli.options import JsonOption, SocketOption, client_of, examples, objects
from vllm_warden.cli.render import Style, columns, cut, duration, style_of_stdout
from vllm_warden.cli.story import incident_story, proof_lines
from vllm_warden.cli.wording import REMEDIES, failure_in_words

NumberArgument = Annotated[
    int | None, typer.Argument(metavar="[ID]", show_default=False, help="One incident in full.")
]


def register(app: typer.Typer) -> None:
    epilog = examples("vllm-warden incidents", "vllm-warden incidents 7")
    app.command(epilog=epilog)(incidents)


def incidents(
    context: typer.Context,
    *,
    number: NumberArgument = None,
    as_json: JsonOption = False,
    socket: SocketOption = None,
) -> None:
    """List what failed, newest first; with an ID, one incident with its log excerpt."""
    client = client_of(context, socket)
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
            "resolved" if each["resolved"] is not None else "open",
            _failure(each),
        )
        for each in found
    ]
    return [cut(line, style.width) for line in columns(rows)]


def _failure(incident: IncidentDocument) -> str:
    diagnosis, decision = incident["diagnosis"], incident["decision"]
    words = failure_in_words(diagnosis["failure"], diagnosis["phase"], diagnosis["site"])
    return f"{words}: {REMEDIES.get(decision['remedy'], '?')}" if decision else words


def _in_full(incident: IncidentDocument, now: float, style: Style) -> list[str]:
    lines = incident_story(incident, now, style)
    excerpt = incident.get("excerpt", [])
    if excerpt:
        lines += ["", style.paint("From the log", "bold"), *proof_lines(excerpt, style)]
    return lines
