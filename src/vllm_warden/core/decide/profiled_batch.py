"""The profiled batch did not fit beside the weights: how much of it would leave a cache as well.

Fitting alone is not enough: at the next wall, KV planning, one request of the full context has
to fit into what the budget leaves of cache and peak together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vllm_warden.core.decide import budget as terms
from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.choice import Choice, Room, choose, least, lowest
from vllm_warden.core.decide.decision import Remedy
from vllm_warden.core.decide.peak import FIXED_BYTES, ROW_UNCERTAINTY, Peak, row_bytes
from vllm_warden.core.decide.proposal import Proposal, changes_to, gib
from vllm_warden.core.decide.request_size import request_of, token_bytes
from vllm_warden.core.decide.useless import PEAK_IGNORES_LENGTH

PEAK_HEADROOM = 1.08
"""The allocator needs more than the bytes profiled; 8 % covers the fragmentation seen."""
LEAST_HEADROOM = 1.02
UNSEEN_FORWARD = 1.35
"""A forward pass that broke off had shown so much less of itself."""
LAST_TRY_FRACTION = 0.02


@dataclass(frozen=True, slots=True)
class _Died:
    """Terms of a death before any cache: H, what others hold apart, W, and the last chunk."""

    total: float
    requested: float
    usable: float
    weights: float
    reached: float


def fitted(case: Case, *, by_sampler: bool, reason: str) -> Proposal | None:
    """Sequences, tokens and budget together; None where the figures for it are not known."""
    died, rows = _died(case), row_bytes(case)
    peak = None if died is None else _peak(case, died, rows, by_sampler=by_sampler)
    if died is None or peak is None:
        return None
    guess = peak
    for requested, estimate, headroom in _tiers(case, died):
        room = _room(case, died, requested, estimate, headroom)
        choice = choose(case, room, guess)
        if choice.fits:
            return _proposed(case, died, room, choice, requested=requested, reason=reason)
        guess = peak if by_sampler else _as_seen(case, peak)
    requested, estimate, headroom = _tiers(case, died)[-1]
    room = _room(case, died, requested, estimate, headroom)
    choice = least(case, room, peak)
    if choice.peak - choice.peak_most <= LAST_TRY_FRACTION * died.total:
        reason = f"{reason}; by the figures it stays a little too large, but worth one try"
        return _proposed(case, died, room, choice, requested=requested, reason=reason)
    return None


def _as_seen(case: Case, peak: Peak) -> Peak:
    """With less caution: the forward pass is what was seen of it, at the fewest tokens."""
    fewest = max(lowest(case, "max_num_batched_tokens", peak.batch), peak.rows)
    seen = replace(peak, forward_bytes=peak.forward_bytes / UNSEEN_FORWARD)
    return replace(seen, forward_bytes=seen.forward(fewest), batch=fewest)


def _died(case: Case) -> _Died | None:
    free, allocated = case.figure("free_bytes"), case.figure("allocated_bytes")
    weights, total = case.figure("weights_bytes"), terms.total_bytes(case)
    now = case.now("gpu_memory_utilization")
    if free is None or allocated is None or weights is None or not total or not now:
        return None
    usable = terms.usable(free, allocated)
    reached = max(usable, allocated + (case.figure("tried_bytes") or 0.0)) - weights
    return _Died(total, now * total, usable, weights, reached)


def _peak(case: Case, died: _Died, row: float | None, *, by_sampler: bool) -> Peak | None:
    """The forward pass was seen to pass, or to break off; of the sampler the formula is known."""
    sequences, tokens = case.now("max_num_seqs"), case.now("max_num_batched_tokens")
    if not sequences or not tokens or (by_sampler and row is None):
        return None
    rows = min(sequences, tokens)
    per_row = (row or 0.0) * ROW_UNCERTAINTY
    if by_sampler:
        # it needed more than it had, whatever the formula says
        per_row = max(per_row, died.reached / rows)
    beside = max(died.usable - died.weights, 0.0)
    forward = beside if by_sampler else UNSEEN_FORWARD * died.reached
    fixed = min(FIXED_BYTES, forward / 4)
    return Peak(rows, tokens, rows * per_row, forward, per_row, fixed, by_sampler)


def _tiers(case: Case, died: _Died) -> tuple[tuple[float, float, float], ...]:
    """Budget, estimated graphs, headroom: with all margins, then with few."""
    outside, estimate = terms.assumed_outside(case), terms.assumed_estimate(case)
    margin = terms.margin(max(0.0, died.usable - died.weights))
    allowed = case.range_of("gpu_memory_utilization")
    safe = terms.room(died.usable, outside, margin)
    careful = died.requested
    if allowed is not None:
        value = max(allowed.low, terms.fraction_of(min(safe, died.requested), died.total))
        careful = min(died.requested, value * died.total)
    return (
        (careful, estimate, PEAK_HEADROOM),
        (careful, estimate / 2, LEAST_HEADROOM),
        (died.requested, estimate / 3, LEAST_HEADROOM),
    )


def _room(case: Case, died: _Died, requested: float, estimate: float, headroom: float) -> Room:
    pool = requested - died.weights - estimate - terms.nccl_in_peak(case)
    limit = (died.usable - died.weights) / headroom
    return Room(pool, request_of(case), token_bytes(case), limit)


def _proposed(
    case: Case, died: _Died, room: Room, choice: Choice, *, requested: float, reason: str
) -> Proposal | None:
    values: dict[str, float] = {}
    if requested < died.requested:
        values["gpu_memory_utilization"] = round(requested / died.total, 4)
    values |= {"max_num_seqs": choice.sequences, "max_num_batched_tokens": choice.tokens}
    if choice.length is not None:
        values["max_model_len"] = choice.length
    changes = changes_to(case, values)
    if not any(change.setting != "gpu_memory_utilization" for change in changes):
        return None
    request = request_of(case)
    lines = (
        (
            f"usable by torch {gib(died.usable)}, less weights {gib(died.weights)}: "
            f"{gib(died.usable - died.weights)} for the profiled batch, which reached "
            f"{gib(died.reached)}"
        ),
        (
            f"a budget of {gib(requested)} leaves {gib(room.pool)} for cache and batch; with one "
            f"request of {gib(request)} the batch may take {gib(choice.peak_most)}"
        ),
        (
            f"with {choice.sequences} sequences and {choice.tokens} batched tokens it takes at "
            f"most {gib(choice.peak)}, and the cache gets {gib(choice.cache)}"
        ),
    )
    return Proposal(
        Remedy.RELAUNCH_WITH,
        reason,
        changes,
        useless=(PEAK_IGNORES_LENGTH,),
        arithmetic=lines,
        kv_bytes_after=choice.cache,
    )
