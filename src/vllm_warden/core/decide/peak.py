"""The peak of the profiled run by sequences and batched tokens, from what was measured of it.

The run is a forward pass over max_num_batched_tokens, then the sampler over
min(max_num_seqs, max_num_batched_tokens) rows; the larger of the two is the peak (``profile_run``
of vLLM's model runners). Which of them it was shows in its size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from vllm_warden.core.decide.budget import nccl_in_peak, total_bytes
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.observation import Observation
from vllm_warden.core.model import GIB, MIB
from vllm_warden.core.plan.memory_model.era import era_of
from vllm_warden.core.plan.memory_model.measured import measured_peak
from vllm_warden.core.plan.memory_model.measured_peak import is_samplers
from vllm_warden.core.plan.spec import EngineFacts

ROW_UNCERTAINTY = 1.07
"""The formula of the sampler's rows is right within 7 % of what logs show."""
SAME_PEAK_BYTES = 64 * MIB
FIXED_BYTES = 0.3 * GIB
"""So much of a forward pass does not shrink with its tokens; a quarter of a small one."""


@dataclass(frozen=True, slots=True)
class Peak:
    """``forward_bytes`` at ``batch`` tokens, ``sampler_bytes`` at ``rows`` rows.

    ``per_row`` is what one row less frees, ``fixed`` what stays of the forward pass.
    ``is_samplers``: the sampler was the larger one, so ``forward_bytes`` is only its upper bound.
    """

    rows: float
    batch: float
    sampler_bytes: float
    forward_bytes: float
    per_row: float
    fixed: float
    is_samplers: bool

    def sampler(self, sequences: float) -> float:
        return max(0.0, self.sampler_bytes - (self.rows - sequences) * self.per_row)

    def forward(self, tokens: float) -> float:
        return self.fixed + (self.forward_bytes - self.fixed) * tokens / self.batch

    def at(self, sequences: float, tokens: float) -> float:
        return max(self.sampler(min(sequences, tokens)), self.forward(tokens))

    def rows_within(self, size: float) -> float:
        """The sampler's rows that fit into so many bytes."""
        if self.per_row <= 0:
            return self.rows
        return self.rows - (self.sampler_bytes - size) / self.per_row

    def tokens_within(self, size: float) -> float:
        """The forward pass's tokens that fit into so many bytes."""
        grows = self.forward_bytes - self.fixed
        return math.inf if grows <= 0 else self.batch * (size - self.fixed) / grows


def row_bytes(case: Case) -> float | None:
    """The sampler's bytes for one row by formula."""
    if case.model.vocab_size is None:
        return None
    era = era_of(EngineFacts(version=case.engine_version()))
    return era.sampler_bytes * case.model.vocab_size


def measured(case: Case, size: float) -> Peak | None:
    """The peak as a budget has shown it; None where the settings are not known."""
    sequences, tokens = case.now("max_num_seqs"), case.now("max_num_batched_tokens")
    if not sequences or not tokens:
        return None
    rows, formula, nccl = min(sequences, tokens), row_bytes(case), nccl_in_peak(case)
    fixed = min(FIXED_BYTES, size / 4) + min(nccl, size / 4)
    if formula is None:
        return Peak(rows, tokens, 0.0, size, 0.0, fixed, is_samplers=False)
    sampler, batch = rows * formula, max(0.0, size - nccl)
    own = is_samplers(batch, sampler) or _stayed_with_fewer_tokens(case, rows, tokens, size)
    per_row = min(batch / rows, formula if own else formula * ROW_UNCERTAINTY)
    reached = size if own else rows * per_row + nccl
    return Peak(rows, tokens, reached, size, per_row, fixed, own)


def _stayed_with_fewer_tokens(case: Case, rows: float, tokens: float, size: float) -> bool:
    """An earlier attempt had more tokens and the same peak: so it is the sampler's."""
    for one in case.observations:
        before = peak_of(one, total_bytes(case))
        had_tokens = one.settings.get("max_num_batched_tokens", 0.0)
        had_rows = min(one.settings.get("max_num_seqs", 0.0), had_tokens)
        if before is None or had_rows != rows or had_tokens <= tokens:
            continue
        if abs(before - size) <= SAME_PEAK_BYTES:
            return True
    return False


def peak_of(one: Observation, total: float | None) -> float | None:
    """The peak that an earlier attempt measured, None where it died before or did not say."""
    now, weights = one.settings.get("gpu_memory_utilization"), one.figure("weights_bytes")
    available = one.figure("available_bytes")
    if available is None:
        available = one.figure("available_kv_bytes")
    if not total or not now or weights is None or available is None:
        return None
    estimate = one.figure("graphs_estimated_bytes") or 0.0
    return measured_peak(now * total, weights, available, estimate)
