"""What an earlier attempt showed, in the place of what the model assumes."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.model import Figures
from vllm_warden.core.plan.memory_model.term import Term, measured

BYTES_MAX = 1 << 50
"""No GPU holds a pebibyte: such a figure is no measurement, and neither is NaN."""
AVAILABLE = ("available_bytes", "available_kv_bytes")
"""The only figures that may be negative: vLLM prints them just before it gives up."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes that an engine printed or NVML showed; None is unknown.

    ``peak_bytes`` (transient, libraries included) belongs to ``peak_seqs`` sequences and
    ``peak_tokens`` batched tokens.
    """

    weights_bytes: float | None = None
    context_bytes: float | None = None
    peak_bytes: float | None = None
    peak_seqs: int | None = None
    peak_tokens: int | None = None
    graphs_bytes: float | None = None
    graphs_estimated_bytes: float | None = None
    available_kv_bytes: float | None = None


def measured_peak(requested: float, weights: float, available: float, estimate: float) -> float:
    """P: what the profiled run of these settings took beyond the weights, in bytes."""
    return max(0.0, requested - weights - available - estimate)


def measured_from_figures(
    figures: Figures, requested_bytes: float, max_num_seqs: int, max_num_batched_tokens: int
) -> Measured:
    """From the figures of a diagnosis: P = R - W - Available - estimate (bytes of one rank)."""

    def figure(name: str) -> float | None:
        value = figures.get(name)
        if not isinstance(value, int | float) or not abs(value) < BYTES_MAX:
            return None
        return float(value) if value >= 0 or name in AVAILABLE else None

    weights = figure("weights_bytes")
    available = next((found for name in AVAILABLE if (found := figure(name)) is not None), None)
    estimate = figure("graphs_estimated_bytes")
    peak = None
    if weights is not None and available is not None:
        estimate = estimate or 0.0  # what was not printed was not set aside
        peak = measured_peak(requested_bytes, weights, available, estimate)
    return Measured(
        weights_bytes=weights,
        peak_bytes=peak,
        peak_seqs=max_num_seqs,
        peak_tokens=max_num_batched_tokens,
        graphs_bytes=figure("graphs_bytes"),
        graphs_estimated_bytes=estimate,
        available_kv_bytes=available,
    )


def instead(term: Term, value_bytes: float | None) -> Term:
    """The measured value in the place of the term, where there is one."""
    if value_bytes is None:
        return term
    return measured(term.name, value_bytes, "an earlier attempt")
