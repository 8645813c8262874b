"""Sentences of the demo, shared by the picture, the plain lines and the summary."""

from __future__ import annotations

from vllm_warden.cli.demo.state import DemoState, as_number, listed
from vllm_warden.cli.demo.verdict import changes, decision, diagnosis
from vllm_warden.cli.render import cut, gib, harmless, value

PROOF_LENGTH = 200


def seconds_words(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def reason_words(state: DemoState) -> str:
    found = diagnosis(state)
    return harmless(str(found.get("summary") or found.get("text") or ""))


def proof_words(state: DemoState) -> str:
    """The first log line that proves the diagnosis."""
    found = diagnosis(state)
    for line in listed(found, "evidence"):
        number = int(as_number(line.get("line")))
        return f"log line {number}: {cut(harmless(str(line.get('text'))), PROOF_LENGTH)}"
    return cut(harmless(str(found.get("proof") or "")), PROOF_LENGTH)


def decision_words(state: DemoState) -> str:
    return harmless(str(decision(state).get("reason") or ""))


def arithmetic_words(state: DemoState) -> str:
    """The numbers behind the decision."""
    steps = decision(state).get("arithmetic")
    return harmless("; ".join(map(str, steps))) if isinstance(steps, list) else ""


def change_words(state: DemoState) -> str:
    return ", ".join(
        f"{change['setting']} {value(change.get('from'))} → {value(change.get('to'))}"
        for change in changes(state)
    )


def price_words(state: DemoState) -> str:
    """What the change costs, in a few words."""
    price = decision(state).get("price")
    if not isinstance(price, dict):
        return ""
    words: list[str] = []
    before, after = price.get("sequences_before"), price.get("sequences_after")
    if before != after:
        words.append(f"{value(after)} sequences at once instead of {value(before)}")
    if lost := as_number(price.get("kv_bytes_lost")):
        words.append(f"{gib(lost)} of KV cache on each GPU")
    before, after = price.get("max_model_len_before"), price.get("max_model_len_after")
    words.append(
        "the context length stays"
        if before == after
        else f"context {value(after)} instead of {value(before)}"
    )
    return "; ".join(words)
