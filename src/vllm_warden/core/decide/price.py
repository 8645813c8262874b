"""What a change costs in concurrent sequences, context and KV bytes."""

from __future__ import annotations

from dataclasses import dataclass

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Price
from vllm_warden.core.decide.knobs import number
from vllm_warden.core.decide.proposal import Proposal
from vllm_warden.core.decide.request_size import token_bytes
from vllm_warden.core.model import Phase

_BEFORE_THE_PLAN = frozenset(
    {Phase.ARGS, Phase.DOWNLOAD, Phase.INIT_DEVICE, Phase.LOAD, Phase.PROFILE, Phase.KV_PLAN}
)
_NO_SIZE = "the log does not show the size of the KV cache"


@dataclass(frozen=True, slots=True)
class _Sizes:
    sequences: float | None
    context: float | None
    tokens: float | None


def price_of(case: Case, proposal: Proposal) -> Price:
    """The price; usable concurrency is min(sequences, KV tokens / context) after over before.

    KV tokens are known only once an attempt got past KV planning; without them the fraction
    stays None and the note says so.
    """
    after_of = {change.setting: number(change.after) for change in proposal.changes}
    before = _Sizes(case.now("max_num_seqs"), case.now("max_model_len"), case.figure("kv_tokens"))
    after = _Sizes(
        after_of.get("max_num_seqs", before.sequences),
        after_of.get("max_model_len", before.context),
        _tokens_after(case, proposal),
    )
    lost = _kv_bytes_lost(case, after_of)
    fraction, note = _fraction(case, before, after)
    return Price(
        sequences_before=_whole(before.sequences),
        sequences_after=_whole(after.sequences),
        kv_tokens_before=_whole(before.tokens),
        kv_tokens_after=_whole(after.tokens),
        kv_bytes_lost=lost,
        max_model_len_before=_whole(before.context),
        max_model_len_after=_whole(after.context),
        concurrency_fraction=fraction,
        note=note,
    )


def _tokens_after(case: Case, proposal: Proposal) -> float | None:
    token = token_bytes(case)
    if proposal.kv_bytes_after is None or not token:
        return None
    return max(0.0, proposal.kv_bytes_after) / token


def _fraction(case: Case, before: _Sizes, after: _Sizes) -> tuple[float | None, str]:
    if before.tokens is None:
        early = case.diagnosis.phase in _BEFORE_THE_PLAN
        why = "the attempt died before the KV cache was planned" if early else _NO_SIZE
        return None, f"usable concurrency unknown: {why}"
    then, now = _usable(before, before.tokens), _usable(after, after.tokens or before.tokens)
    if not then or now is None:
        return None, "usable concurrency unknown: sequences or context are not known"
    return min(1.0, now / then), ""


def _usable(sizes: _Sizes, kv_tokens: float) -> float | None:
    if sizes.sequences is None or not sizes.context:
        return sizes.sequences
    return min(sizes.sequences, kv_tokens / sizes.context)


def _kv_bytes_lost(case: Case, after_of: dict[str, float | None]) -> int | None:
    kv_after, kv_before = after_of.get("kv_cache_memory_bytes"), case.now("kv_cache_memory_bytes")
    if kv_after is not None and kv_before is not None:
        return int(kv_before - kv_after)
    utilization, now = after_of.get("gpu_memory_utilization"), case.now("gpu_memory_utilization")
    total = case.figure("total_bytes")
    if utilization is not None and now is not None and total:
        return int((now - utilization) * total)
    return None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
