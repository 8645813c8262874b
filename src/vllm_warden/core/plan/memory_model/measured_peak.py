"""Carries a measured peak over to other numbers of sequences and batched tokens.

Activations grow with the batched tokens, sampling with the sequences; which of them an earlier
attempt measured is told by its size.
"""

from __future__ import annotations

from vllm_warden.core.model import GIB
from vllm_warden.core.plan.memory_model.engine_options import EngineOptions
from vllm_warden.core.plan.memory_model.measured import Measured
from vllm_warden.core.plan.memory_model.peak import sampler_rows
from vllm_warden.core.plan.memory_model.term import Source, Term

SAMPLER_MATCH_FRACTION = 0.12
SAMPLER_MATCH_BYTES = 0.4 * GIB
"""A peak this near to what sampling should take is sampling's: right in 94 % of 400 simulated."""
CARRIED_UNCERTAINTY = 0.1


def carried_peak(
    activations: Term, sampler: Term, options: EngineOptions, measured: Measured
) -> tuple[Term, Term, bool]:
    """(activations, sampler, whether libraries are in them) as far as the measurement tells."""
    peak, rows, tokens = measured.peak_bytes, measured.peak_seqs, measured.peak_tokens
    if peak is None:
        return activations, sampler, False
    now_rows, now_tokens = sampler_rows(options), options.max_num_batched_tokens
    then_tokens = tokens or now_tokens
    then_rows = min(rows or now_rows, then_tokens)
    if (then_rows, then_tokens) == (now_rows, now_tokens):
        exact = "an earlier attempt with these sequences and tokens, libraries included"
        larger = max(activations, sampler, key=lambda term: term.bytes)
        term = Term(larger.name, int(peak), Source.MEASURED, 20 << 20, exact)
        if larger is activations:
            return term, _carried(sampler, min(sampler.bytes, peak)), True
        return _carried(activations, min(activations.bytes, peak)), term, True
    expected = sampler.bytes * then_rows / now_rows
    if is_samplers(peak, expected):
        bound = int(peak * max(1.0, now_tokens / then_tokens))
        at_most = min(activations.bytes, bound)
        return _carried(activations, at_most), _carried(sampler, peak * now_rows / then_rows), True
    return _carried(activations, peak * now_tokens / then_tokens), sampler, True


def is_samplers(peak_bytes: float, sampler_bytes: float) -> bool:
    """Whether a measured peak is that of sampling, which by formula takes ``sampler_bytes``."""
    off = abs(peak_bytes - sampler_bytes)
    return off <= SAMPLER_MATCH_FRACTION * sampler_bytes + SAMPLER_MATCH_BYTES


def _carried(term: Term, size_bytes: float) -> Term:
    doubt = int(size_bytes * CARRIED_UNCERTAINTY)
    return Term(term.name, int(size_bytes), Source.COMPUTED, doubt, "from an earlier attempt")
