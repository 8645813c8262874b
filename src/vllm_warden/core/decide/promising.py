"""Whether capacity that was given up may be had again, and why; only a person acts on it."""

from __future__ import annotations

from vllm_warden.core.decide.envelope import Envelope
from vllm_warden.core.decide.proposal import gib
from vllm_warden.core.decide.slack import Slack
from vllm_warden.core.model import GIB

MORE_FREE_BYTES = GIB
"""Less than this comes and goes with a display or a monitoring program."""
MORE_SLACK_BYTES = GIB
"""More than the margin and this is capacity that lies idle."""


def promising(
    envelope: Envelope,
    version: str | None,
    free_at_launch_bytes: int | None,
    slack: Slack | None,
) -> tuple[str, ...]:
    """Reasons why the asked settings may work by now; empty where nothing has changed.

    ``free_at_launch_bytes`` and ``slack`` are those of the attempt that runs.
    """
    reasons: list[str] = []
    if envelope.version is not None and version is not None and envelope.version != version:
        reasons.append(f"they were learned with vLLM {envelope.version}, and {version} runs now")
    known, free = envelope.free_bytes, free_at_launch_bytes
    if known is not None and free is not None and free - known >= MORE_FREE_BYTES:
        reasons.append(
            f"{gib(free - known)} more of the GPU were free at launch than when they were learned: "
            "a neighbour has left"
        )
    if slack is not None and slack.slack_bytes - slack.kept_bytes >= MORE_SLACK_BYTES:
        reasons.append(
            f"{gib(slack.slack_bytes)} were left beside the budget at ready, and "
            f"{gib(slack.kept_bytes)} had been assumed to be needed"
        )
    return tuple(reasons)
