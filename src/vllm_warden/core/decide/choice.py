"""Chooses sequences, batched tokens and context together for a budget whose size is settled.

The cache and the peak share what the weights leave of the budget. A larger peak buys sequences
or faster prefill, a larger cache buys requests at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.peak import Peak
from vllm_warden.core.model import MIB

SPARE_BYTES = 64 * MIB
"""Left in the cache beside one request of the full context, for what differs between starts."""
SHORT_REQUEST_TOKENS = 1024
"""More sequences than the cache holds requests of this length only wait for memory."""
FORWARD_SHARE = 1 / 11
"""Of cache and peak together: halving the batch costs 7 % of prefill speed, so that less than a
tenth of the cache is not worth taking from the forward pass."""
BATCH_SHARE_MOST = 3 / 4
"""Of the same: a batch that takes more leaves a cache for a few requests, and is cut as above."""
SEQUENCES_STEP = 16
TOKENS_STEP = 256
LENGTH_STEP = 16


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings and what they leave: ``peak`` and ``cache`` in bytes, ``spare`` beside one request.

    ``peak_most`` is the largest peak that would have been right.
    """

    sequences: int
    tokens: int
    length: int | None
    peak: float
    peak_most: float
    cache: float
    spare: float

    @property
    def fits(self) -> bool:
        return self.peak <= self.peak_most


@dataclass(frozen=True, slots=True)
class Room:
    """``pool`` is for cache and peak, ``peak_limit`` what the GPU has for the profiled run.

    ``token`` is the cache's bytes for one token, ``request`` for one full request.
    """

    pool: float
    request: float
    token: float | None
    peak_limit: float | None = None

    @property
    def peak_most(self) -> float:
        most = largest_peak(self.pool, self.request, SPARE_BYTES)
        return most if self.peak_limit is None else min(most, self.peak_limit)


def largest_peak(pool: float, request: float, spare: float) -> float:
    """What the cache's least size leaves to the peak."""
    return pool - request - spare


def useful_sequences(room: Room, peak: Peak) -> float:
    """As many as the cache holds short requests, if it gets what fewer sequences free."""
    if not room.token or not peak.per_row:
        return peak.rows
    constant = peak.sampler_bytes - peak.rows * peak.per_row
    return (room.pool - constant) / (SHORT_REQUEST_TOKENS * room.token + peak.per_row)


def choose(case: Case, room: Room, peak: Peak) -> Choice:
    """Sequences by the sampler and by use, tokens by the forward pass, context last."""
    sequences = _sequences(case, room, peak)
    tokens = _tokens(case, room, peak, sequences)
    return settled(case, room, peak, sequences, tokens)


def settled(case: Case, room: Room, peak: Peak, sequences: int, tokens: int) -> Choice:
    """What these sequences and tokens leave; a shorter context where it must and may be."""
    size = peak.at(sequences, tokens)
    length, request = _length(case, room, size)
    most = largest_peak(room.pool, request, SPARE_BYTES)
    if room.peak_limit is not None:
        most = min(most, room.peak_limit)
    cache = room.pool - size
    return Choice(sequences, tokens, length, size, most, cache, cache - request - SPARE_BYTES)


def least(case: Case, room: Room, peak: Peak) -> Choice:
    """The least demanding settings that the bounds allow."""
    sequences = lowest(case, "max_num_seqs", peak.rows)
    tokens = max(lowest(case, "max_num_batched_tokens", peak.batch), sequences)
    return settled(case, room, peak, int(sequences), int(tokens))


def lowest(case: Case, name: str, now: float) -> float:
    allowed = case.range_of(name)
    return now if allowed is None else min(now, allowed.low)


def stepped(value: float, now: float, low: float, step: int) -> int:
    """In whole steps down, neither above what it was nor below the bound."""
    if value >= now:
        return int(now)
    return int(min(now, max(low, value // step * step)))


def _sequences(case: Case, room: Room, peak: Peak) -> int:
    now = case.now("max_num_seqs") or peak.rows
    wanted = peak.rows_within(room.peak_most)
    if peak.is_samplers or _is_cut(room, peak):
        wanted = min(wanted, useful_sequences(room, peak))
    if wanted >= peak.rows:
        return int(now)
    return stepped(wanted, now, lowest(case, "max_num_seqs", now), SEQUENCES_STEP)


def _tokens(case: Case, room: Room, peak: Peak, sequences: int) -> int:
    """Only where the forward pass takes too much; then as few as are worth it."""
    if not _is_cut(room, peak):
        return int(peak.batch)
    size = room.peak_most
    if peak.forward(peak.batch) > room.pool * BATCH_SHARE_MOST or not peak.is_samplers:
        size = min(size, max(room.pool * FORWARD_SHARE, peak.sampler(sequences)))
    low = max(lowest(case, "max_num_batched_tokens", peak.batch), min(sequences, peak.batch))
    return stepped(peak.tokens_within(size), peak.batch, low, TOKENS_STEP)


def _is_cut(room: Room, peak: Peak) -> bool:
    """The forward pass as it was takes too much: more than fits, or nearly all."""
    return peak.forward(peak.batch) > min(room.peak_most, room.pool * BATCH_SHARE_MOST)


def _length(case: Case, room: Room, peak_bytes: float) -> tuple[int | None, float]:
    """The context, and one request of it; shortened only where nothing else made room."""
    now, allowed = case.now("max_model_len"), case.range_of("max_model_len")
    left = room.pool - peak_bytes - SPARE_BYTES
    if room.request <= left or not now or allowed is None or not room.token:
        return None if now is None else int(now), room.request
    length = stepped(left / room.token, now, allowed.low, LENGTH_STEP)
    return length, length * room.token
