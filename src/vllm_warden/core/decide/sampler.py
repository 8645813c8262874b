"""Sampler memory: what it needs per row, and how many rows fit.

The profiling run and the warm-up run the sampler once with min(max_num_seqs,
max_num_batched_tokens) rows. Bytes per row and vocabulary entry, on every rank, as counted from
the tensors alive at the peak in vLLM's sources: 50 on the sort path of vLLM up to 0.16 on GPUs,
18 later and on the CPU (bf16 logits 2, fp32 copy 4, sorted values 4, int64 indices 8).
"""

from __future__ import annotations

import re

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.proposal import Target, gib, round_down

SORT_PATH_BYTES = 50
LEAN_PATH_BYTES = 18
LEAN_SINCE = (0, 17)
ROOM_FRACTION = 0.5
"""Share of the room left below an address-space limit that the sampler may plan with. Measured
on vLLM 0.32 for the CPU below a limit of 6 GiB: 2.4 GiB in use before the sampler, 1024 rows of
200,064 entries (3.4 GiB by formula) still die, because thread stacks and compiled code grow too."""
PEAK_HEADROOM = 1.08
"""The allocator needs more than the bytes profiled; 8 % covers the fragmentation seen."""


def bytes_per_entry(case: Case) -> int:
    """Sampler bytes per (row x vocabulary entry) of the engine version in question."""
    found = re.match(r"(\d+)\.(\d+)", case.engine_version() or "")
    old = found is not None and (int(found[1]), int(found[2])) < LEAN_SINCE
    return SORT_PATH_BYTES if old and case.has_gpus else LEAN_PATH_BYTES


def rows_in_force(case: Case) -> float | None:
    """Rows of the sampler run that died: as printed, else from the settings."""
    printed = case.figure("dummy_requests")
    if printed is not None:
        return printed
    sequences, tokens = case.now("max_num_seqs"), case.now("max_num_batched_tokens")
    return min(sequences, tokens) if sequences and tokens else sequences


def fewer_sequences(case: Case) -> Target | None:
    """How many sequences the profiled sampler run can afford; None when nothing is known."""
    rows = rows_in_force(case)
    if rows is None:
        return None
    fitted = _fit_to_gpu(case) or _fit_to_host(case)
    if fitted is not None and fitted.value < rows:
        return fitted
    quarter = round_down(rows / 4, 16)
    lines = (
        (
            f"free memory is not known for the {rows:.0f} rows that died: a quarter, {quarter}, "
            "because a half still fails where the sort path's scratch doubles the need"
        ),
    )
    return Target("max_num_seqs", quarter, lines, exact=False, blind=True)


def _fit_to_gpu(case: Case) -> Target | None:
    free, allocated = case.figure("free_bytes"), case.figure("allocated_bytes")
    weights, vocab = case.figure("weights_bytes"), case.model.vocab_size
    if free is None or allocated is None or weights is None or vocab is None:
        return None
    room = (free + allocated - weights) / PEAK_HEADROOM
    per_row = vocab * bytes_per_entry(case)
    value = round_down(room / per_row, 16)
    lines = (
        f"usable by torch: {gib(free)} free + {gib(allocated)} allocated = {gib(free + allocated)}",
        f"minus weights {gib(weights)}, divided by {PEAK_HEADROOM}: {gib(room)} for the peak",
        (
            f"one row: {vocab} x {bytes_per_entry(case)} bytes = {gib(per_row)}; "
            f"{gib(room)} / {gib(per_row)} = {value} rows"
        ),
    )
    return Target("max_num_seqs", value, lines, exact=False)


def _fit_to_host(case: Case) -> Target | None:
    limits, vocab = case.limits, case.model.vocab_size
    limit = limits.address_space_bytes or limits.memory_bytes
    if limit is None or vocab is None:
        return None
    used = limits.address_space_used_bytes if limits.address_space_bytes else None
    base = limit / 2 if used is None else used
    room = (limit - base) * ROOM_FRACTION
    per_row = vocab * bytes_per_entry(case)
    value = round_down(room / per_row, 16)
    name = "address-space limit" if limits.address_space_bytes else "memory limit of its cgroup"
    lines = (
        f"{name} {gib(limit)}, {gib(base)} of it "
        + ("in use before the sampler" if used is not None else "assumed in use"),
        f"half of the rest for the sampler: {gib(room)}",
        (
            f"one row: {vocab} x {bytes_per_entry(case)} bytes = {gib(per_row)}; "
            f"{gib(room)} / {gib(per_row)} = {value} rows"
        ),
    )
    return Target("max_num_seqs", value, lines, exact=False) if value > 0 else None
