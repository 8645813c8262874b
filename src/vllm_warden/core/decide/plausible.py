"""Leaves out figures that no log of a real death holds, so that nothing is computed from them."""

from __future__ import annotations

from math import isfinite

from vllm_warden.core.model import Figures
from vllm_warden.core.plan.memory_model.measured import BYTES_MAX

FIGURE_MIN = 1e-3
"""Nothing that vLLM prints is smaller and not nothing; to divide by it is to divide by zero."""
MAY_BE_NEGATIVE = ("available_",)
"""vLLM prints "Available KV cache memory: -1.36 GiB" where nothing is left for the cache."""


def plausible(figures: Figures) -> Figures:
    """The figures that can be computed with; what is text stays."""
    return {name: value for name, value in figures.items() if _is_plausible(name, value)}


def _is_plausible(name: str, value: float | str) -> bool:
    if isinstance(value, str):
        return True
    if isinstance(value, bool) or not isfinite(value) or 0 < abs(value) < FIGURE_MIN:
        return False
    # far above every count that vLLM prints, too
    least = -BYTES_MAX if name.startswith(MAY_BE_NEGATIVE) else 0
    return least <= value <= BYTES_MAX
