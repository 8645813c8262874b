"""Writes the references that are drawn from the lifecycle: states.md and events.md.

Usage: python docs/generate.py states
"""

from __future__ import annotations

import sys
from pathlib import Path

from vllm_warden.core.lifecycle.announcements import ANNOUNCEMENTS
from vllm_warden.core.lifecycle.machine import IMPOSSIBLE, RULES
from vllm_warden.core.lifecycle.states import State

REFERENCE = Path(__file__).parent / "reference"
MEANINGS = {
    State.STOPPED: "not wanted, nothing runs",
    State.WAITING: "wanted; the gate is not open yet",
    State.STARTING: "launched, not ready yet",
    State.READY: "answers requests",
    State.UNREADY: "was ready; does not answer at present",
    State.STOPPING: "being ended on request; relaunched afterwards if still wanted",
    State.DIAGNOSING: "died by itself; the evidence is being gathered",
    State.BACKOFF: "will be started again after a delay",
    State.HELD: "waits for the operator, and says why",
    State.FAILED: "cannot work as configured, and says why",
}


def states_page() -> str:
    """The states, their diagram and their table, from the rules themselves."""
    edges: dict[tuple[State, State], list[str]] = {}
    for (state, event), rule in RULES.items():
        for target in rule.to:
            if target is not state:
                edges.setdefault((state, target), []).append(event.__name__)
    diagram = [
        f"    {source} --> {target}: {', '.join(sorted(set(names)))}"
        for (source, target), names in sorted(edges.items())
    ]
    rows = [
        f"| {state} | {event.__name__} | {', '.join(sorted(set(rule.to)))} |"
        for (state, event), rule in sorted(RULES.items(), key=lambda item: _key(item[0]))
    ]
    bugs = [f"{state}: {event.__name__}" for state, event in sorted(IMPOSSIBLE, key=_key)]
    return "\n".join(
        [
            "# States of an instance",
            "",
            "Written from the table in `core/lifecycle/machine.py` by `make docs`; do not edit.",
            "",
            "| state | means |",
            "|---|---|",
            *(f"| {state} | {meaning} |" for state, meaning in MEANINGS.items()),
            "",
            "```mermaid",
            "stateDiagram-v2",
            "    [*] --> stopped",
            *diagram,
            "```",
            "",
            "| in | on | may go to |",
            "|---|---|---|",
            *rows,
            "",
            "All other pairs are ignored, but for these, which only a bug can produce:",
            f"{'; '.join(bugs)}.",
            "",
        ]
    )


def events_page() -> str:
    """Every name of the event stream."""
    return "\n".join(
        [
            "# Events",
            "",
            "What `vllm-warden events` and `GET /v1/events` tell; written by `make docs`.",
            "",
            "| event | means |",
            "|---|---|",
            *(f"| `{name}` | {meaning} |" for name, meaning in ANNOUNCEMENTS.items()),
            "",
        ]
    )


PAGES = {"states.md": states_page, "events.md": events_page}


def _key(pair: tuple[State, type]) -> tuple[int, str]:
    return list(State).index(pair[0]), pair[1].__name__


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (REFERENCE / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
