"""``vllm-warden status NAME`` as text: one instance with processes, settings and attempts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vllm_warden.cli.overview import instance_lines
from vllm_warden.cli.render import Style, columns, cut, duration, harmless, size, value, wrapped
from vllm_warden.cli.wording import PHASES

if TYPE_CHECKING:  # building the TypedDicts costs milliseconds that `status` can do without
    from vllm_warden.api.schema import AttemptDocument, InstanceDetailDocument

ATTEMPTS_SHOWN = 8


def detail(document: InstanceDetailDocument, now: float, style: Style) -> list[str]:
    """The overview's lines, then everything else that is known of it now."""
    lines = instance_lines(document, now, style)
    for title, section in (
        ("Engine", _engine(document, style)),
        ("Settings", _settings(document, style)),
        ("Attempts", attempt_lines(document["attempts"], now, style)),
        ("Command", wrapped(document["launch_command"], style, "  ")),
    ):
        if section:
            lines += ["", style.paint(title, "bold"), *section]
    return lines


def attempt_lines(attempts: list[AttemptDocument], now: float, style: Style) -> list[str]:
    """Newest last, each with how it ended and what it ran with that the one before did not."""
    rows = []
    shown = sorted(attempts, key=lambda each: each["number"])[-ATTEMPTS_SHOWN:]
    for attempt in shown:
        changes = ", ".join(
            f"{each['setting']} {value(each['from'])} -> {value(each['to'])}"
            for each in attempt["changes"]
        )
        rows.append((str(attempt["number"]), _when(attempt, now), _end(attempt), changes))
    lines = [cut(line, style.width) for line in columns(rows, "  ")]
    hidden = len(attempts) - len(shown)
    return [f"  ({hidden} earlier ones not shown)", *lines] if hidden else lines


def _engine(document: InstanceDetailDocument, style: Style) -> list[str]:
    phase = document["phase"]
    rows = [
        ("model", harmless(document["model"])),
        ("port", str(document["port"])),
        ("mode", document["mode"]),
        ("wanted", document["wanted"]),
        ("phase", PHASES.get(phase, phase) if phase else "none"),
    ]
    if document["since"] is not None:
        rows.append(("since", local_time(document["since"])))
    if document["pids"]["parent"] is not None:
        rows.append(("process", str(document["pids"]["parent"])))
    rows += [(f"pid {pid}", harmless(title)) for pid, title in document["pids"]["engine"].items()]
    used = document["memory"]["used_bytes"]
    rows += [(f"GPU {gpu}", f"{size(used[gpu])} used") for gpu in sorted(used, key=int)]
    return [cut(line, style.width) for line in columns(rows, "  ")]


def _settings(document: InstanceDetailDocument, style: Style) -> list[str]:
    rows = []
    for each in document["settings"]:
        asked, in_force = cut(value(each["asked"]), 30), cut(value(each["in_force"]), 30)
        both = asked if each["asked"] == each["in_force"] else f"{asked} -> {in_force}"
        rows.append((each["name"], both, harmless(each["why"])))
    return [cut(line, style.width) for line in columns(rows, "  ")]


def _when(attempt: AttemptDocument, now: float) -> str:
    if attempt["launched"] is None:
        return "never launched"
    if attempt["ended"] is None:
        return f"running for {duration(now - attempt['launched'])}"
    return f"ran {duration(attempt['ended'] - attempt['launched'])}"


def _end(attempt: AttemptDocument) -> str:
    if attempt["outcome"]:
        return harmless(attempt["outcome"])
    phase = attempt["phase"]
    return PHASES.get(phase, phase) if phase else ""


def local_time(at: float) -> str:
    """Wall time in the reader's time zone, with its offset."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))
