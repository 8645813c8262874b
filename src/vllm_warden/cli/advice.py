"""What a person can do from the state that an instance is in: the last part of ``why``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vllm_warden.cli.render import Style, wrapped

if TYPE_CHECKING:  # building the TypedDicts costs milliseconds that `status` can do without
    from vllm_warden.api.schema import InstanceDetailDocument

_GATES = (
    (
        re.compile(r"GPU \d+ has "),
        "wait: it starts by itself once the GPUs are free",
        "or free them yourself",
    ),
    (
        re.compile(r"port \d+ is taken"),
        "wait: it starts by itself once the port is free",
        "or end the program that has it, or configure another port",
    ),
    (
        re.compile(r"other starts are under way"),
        "wait: it starts by itself once those are further",
        "",
    ),
    (
        re.compile(r"ending processes of an earlier attempt"),
        "wait: it starts by itself once they are gone",
        "",
    ),
    (
        re.compile(r"instance\.[a-z0-9-]+\.model\b"),
        "wait: it starts by itself once the model is there",
        "or mount it, or finish its download; or correct the path",
    ),
)
"""How a gate's text begins, what waiting is for, and what a person could do instead."""

_GATE_OTHERWISE = ["wait: it starts by itself once that is right", "or put it right yourself"]


def advice(document: InstanceDetailDocument, style: Style) -> list[str]:
    """What a person can do from this state; empty where nothing is left to do."""
    name = document["name"]
    words = _words(document)
    lines = [line for each in words for line in wrapped(each, style, "    ", "  - ")]
    if document["incident"] is not None and lines:
        number = document["incident"]["number"]
        lines.append(f"  - all of it: vllm-warden incidents {number}; vllm-warden logs {name}")
    return lines


def _words(document: InstanceDetailDocument) -> list[str]:
    name, state, gate = document["name"], document["state"], document["gate"]
    by_state = {
        "held": [
            *_options(document, "do what the reason above asks for (or change the configuration)"),
            f"then: vllm-warden resume {name}",
        ],
        "failed": [
            *_options(
                document, "correct what the reason above names (configuration file or serve line)"
            ),
            "then restart the daemon, which reads it at its start",
            f"or try again with nothing changed there: vllm-warden start {name}",
        ],
        "waiting": _at_the_gate(gate["text"], name) if gate else [],
        "backoff": [
            "wait: the next try comes by itself",
            f"or try now: vllm-warden start {name}",
            f"or no more tries: vllm-warden hold {name}",
        ],
        "unready": [
            f"see what it says: vllm-warden logs {name} -f",
            "wait: it may answer again, and is relaunched by itself when it dies",
            f"or relaunch it now: vllm-warden restart {name}",
        ],
        "stopped": [f"vllm-warden start {name}"],
    }
    degraded = [
        "nothing is urgent: it serves with the settings in force",
        f"to make them the asked ones: vllm-warden accept {name}",
        f"to try the asked ones again: vllm-warden restart {name} --retry-capacity",
    ]
    at_rest = [*_before_it_dies(document), *(degraded if document["degraded"] else [])]
    return by_state.get(state, at_rest)


def _before_it_dies(document: InstanceDetailDocument) -> list[str]:
    """A launch with the planned settings, where a death is foreseen."""
    foreseen = document.get("foreseen")
    if not foreseen or not foreseen["changes"]:
        return []
    given = " ".join(f"--set {each['setting']}={each['to']}" for each in foreseen["changes"])
    return [f"before it dies: vllm-warden restart {document['name']} {given}"]


def _at_the_gate(text: str, name: str) -> list[str]:
    found = (words for pattern, *words in _GATES if pattern.match(text))
    words = next(found, _GATE_OTHERWISE)
    return [*filter(None, words), f"or give up on it: vllm-warden stop {name}"]


def _options(document: InstanceDetailDocument, otherwise: str) -> list[str]:
    """What the decision offers a person, most promising first."""
    incident = document["incident"]
    decision = document["decision"] or (incident["decision"] if incident else None)
    options = decision.get("options", []) if decision else []
    return options or [otherwise]
