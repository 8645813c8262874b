"""Reads the few counters that matter out of vLLM's /metrics text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import islice

LINE = re.compile(
    r"^(vllm:(?:request_success_total|num_requests_running|num_requests_waiting|generation_tokens_total))"
    r"(?:\{.*\})?[ \t]+(\S+)",
    re.MULTILINE,
)
LINES_MAX = 4096
"""vLLM has a dozen of these lines for each engine; more is no engine's answer."""


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """Summed over engines and labels; None where the engine does not export it.

    Names as of vLLM 0.9 to 0.32: vllm:request_success_total, vllm:num_requests_running,
    vllm:num_requests_waiting, vllm:generation_tokens_total.
    """

    requests_served: int | None = None
    requests_running: int | None = None
    generated_tokens: int | None = None
    requests_waiting: int | None = None


def parse_metrics(text: str) -> EngineMetrics:
    """Prometheus text format 0.0.4; lines that do not parse are left out."""
    sums: dict[str, float] = {}
    for line in islice(LINE.finditer(text), LINES_MAX):
        try:
            value = float(line[2])
        except ValueError:
            continue
        if math.isfinite(value):
            sums[line[1]] = sums.get(line[1], 0.0) + value
    return EngineMetrics(
        requests_served=_whole(sums, "vllm:request_success_total"),
        requests_running=_whole(sums, "vllm:num_requests_running"),
        requests_waiting=_whole(sums, "vllm:num_requests_waiting"),
        generated_tokens=_whole(sums, "vllm:generation_tokens_total"),
    )


def _whole(sums: dict[str, float], name: str) -> int | None:
    value = sums.get(name)
    return int(value) if value is not None and math.isfinite(value) else None
