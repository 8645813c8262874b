"""The demo without a terminal: one time-stamped line for each thing that happens."""

from __future__ import annotations

from vllm_warden.cli.demo.state import DemoState
from vllm_warden.cli.demo.words import (
    change_words,
    price_words,
    proof_words,
    seconds_words,
)
from vllm_warden.cli.render import harmless


def event_line(at_seconds: float, kind: str, text: str) -> str:
    return f"{at_seconds:6.1f} s  {kind:<18} {harmless(text)}"


def summary(state: DemoState, shortcomings: list[str]) -> list[str]:
    """The end of the demo, with and without a terminal."""
    if shortcomings:
        lines = ["The demo did not show what it promises:"]
        lines += [f"  - {reason}" for reason in shortcomings]
        if state.state in {"held", "failed"}:
            lines.append(f"  the instance ended {state.state}: {harmless(state.reason)}")
        return lines
    first, second = state.attempts[1], state.attempts[2]
    died = seconds_words((first.ended_seconds or 0) - first.began_seconds)
    ready = seconds_words((second.ready_seconds or 0) - second.began_seconds)
    rows = (
        ("attempt 1", f"died in the sampler warm-up after {died}"),
        ("proof", proof_words(state)),
        ("gate", _gate(state)),
        ("attempt 2", f"{change_words(state)}; ready after {ready}"),
        ("price", price_words(state)),
        ("answer", state.completion or ""),
    )
    lines = ["One death, one relaunch, no hand on the keyboard:"]
    lines += [f"  {name:<10} {text}" for name, text in rows if text]
    return [*lines, "The GPUs, the model and vLLM were simulated; the warden was not."]


def _gate(state: DemoState) -> str:
    if not state.gate_waits:
        return "open at once"
    return f"waited {seconds_words(state.gate_wait_seconds)} until the memory was really back"
