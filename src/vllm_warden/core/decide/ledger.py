"""What went wrong lately, and how much of the restart budget is left.

Two ledgers in one list, neither extends the other: failed starts, and crashes after the soak.
The list is emptied only by a soak, never by merely becoming ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllm_warden.core.model import Failure, Phase
from vllm_warden.core.plan.spec import RestartSpec

LEDGER_MAX = 200


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One failure: when (CLOCK_BOOTTIME), what, and whether the answer changed a setting.

    ``after_soak`` is True once the attempt had been ready for the soak's time, or proven; its
    deaths are crashes, all others are failed starts, ready or not.
    """

    at_seconds: float
    failure: Failure
    phase: Phase | None
    was_ready: bool
    after_soak: bool
    changed: bool = False


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """``spent`` says which budget is used up, None when the relaunch is within all of them."""

    spent: str | None
    delay_seconds: float


def judge_budget(
    ledger: Sequence[LedgerEntry],
    entry: LedgerEntry,
    restart: RestartSpec,
    *,
    changed: bool,
    jitter_fraction: float,
) -> BudgetVerdict:
    """Whether one more relaunch is allowed after ``entry``, and after which delay."""
    now = entry.at_seconds
    if entry.after_soak:
        recent = _within(ledger, now, restart.crash_window_seconds, after_soak=True)
        if len(recent) >= restart.crashes_max:
            return BudgetVerdict(
                f"{restart.crashes_max} crashes within {restart.crash_window_seconds / 3600:g} h",
                0.0,
            )
    else:
        recent = _within(ledger, now, restart.startup_window_seconds, after_soak=False)
        if len(recent) >= restart.startup_failures_max:
            return BudgetVerdict(
                f"{restart.startup_failures_max} failed attempts within "
                f"{restart.startup_window_seconds / 3600:g} h",
                0.0,
            )
    if changed:
        return BudgetVerdict(None, 0.0)
    repeats = sum(not earlier.changed for earlier in recent)
    if not entry.after_soak and repeats >= restart.unchanged_repeats_max:
        return BudgetVerdict(
            f"{restart.unchanged_repeats_max} unchanged relaunches did not last", 0.0
        )
    return BudgetVerdict(None, delay_before(repeats, entry, restart, jitter_fraction))


def failed_launch(at_seconds: float) -> LedgerEntry:
    """A launch that failed before there was an engine: no repeat of what one did."""
    return LedgerEntry(
        at_seconds, Failure.UNKNOWN, None, was_ready=False, after_soak=False, changed=True
    )


def judge_launch(
    ledger: Sequence[LedgerEntry], entry: LedgerEntry, restart: RestartSpec
) -> BudgetVerdict:
    """The same after a failed launch, with a pause that grows: nothing about it was changed."""
    verdict = judge_budget(ledger, entry, restart, changed=True, jitter_fraction=0.0)
    failed = _within(ledger, entry.at_seconds, restart.startup_window_seconds, after_soak=False)
    return replace(verdict, delay_seconds=delay_before(len(failed), entry, restart, 0.0))


def with_entry(ledger: Sequence[LedgerEntry], entry: LedgerEntry) -> tuple[LedgerEntry, ...]:
    """The ledger with the newest entry; the oldest ones go."""
    return (*ledger, entry)[-LEDGER_MAX:]


def delay_before(
    repeats: int, entry: LedgerEntry, restart: RestartSpec, jitter_fraction: float
) -> float:
    """Seconds before an unchanged relaunch: none after the first crash of a ready instance.

    After that the first delay, doubled with each repeat up to the maximum, plus up to a tenth of
    jitter so that instances that died together do not load together.
    """
    step = repeats - 1 if entry.was_ready else repeats
    if step < 0:
        return 0.0
    delay = min(restart.backoff_first_seconds * 2.0**step, restart.backoff_max_seconds)
    return delay * (1 + 0.1 * jitter_fraction)


def _within(
    ledger: Sequence[LedgerEntry], now: float, window_seconds: float, *, after_soak: bool
) -> list[LedgerEntry]:
    return [
        entry
        for entry in ledger
        if entry.after_soak is after_soak and now - entry.at_seconds <= window_seconds
    ]
