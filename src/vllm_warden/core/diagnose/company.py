"""Leaves out what proves nothing by itself: it counts where something died as well."""

from __future__ import annotations

from collections.abc import Sequence

from vllm_warden.core.diagnose.findings import Finding


def in_company(causes: Sequence[Finding], *, died: bool) -> list[Finding]:
    """The causes that count: all of them where one stands by itself, or a death is known."""
    if died or any(not cause.row.in_company for cause in causes):
        return list(causes)
    return []
