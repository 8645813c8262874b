"""Reads the few counters that matter out of vLLM's /metrics text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """Summed over engines and labels; None where the engine does not export it.

    Names as of vLLM 0.9 to 0.32: vllm:request_success_total, vllm:num_requests_running,
    vllm:generation_tokens_total.
    """

    requests_served: int | None = None
    requests_running: int | None = None
    generated_tokens: int | None = None


def parse_metrics(text: str) -> EngineMetrics:
    """Prometheus text format 0.0.4; lines that do not parse are left out."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("vllm:"):
            continue
        name = line.partition("{")[0].partition(" ")[0]
        rest = line.rpartition("}")[2] if "{" in line else line.partition(" ")[2]
        try:
            value = float(rest.split()[0])
        except (IndexError, ValueError):
            continue
        if value == value and value not in {float("inf"), float("-inf")}:  # noqa: PLR0124
            sums[name] = sums.get(name, 0.0) + value
    return EngineMetrics(
        requests_served=_whole(sums, "vllm:request_success_total"),
        requests_running=_whole(sums, "vllm:num_requests_running"),
        generated_tokens=_whole(sums, "vllm:generation_tokens_total"),
    )


def _whole(sums: dict[str, float], name: str) -> int | None:
    return int(sums[name]) if name in sums else None
