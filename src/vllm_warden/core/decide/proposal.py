"""What a remedy proposes before bounds, mode and budget have been looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vllm_warden.core.decide.case import Case
from vllm_warden.core.decide.decision import Change, Price, Remedy, Useless
from vllm_warden.core.model import GIB, MIB


@dataclass(frozen=True, slots=True)
class Proposal:
    """A remedy in the making; the policy turns it into a Decision.

    ``blind`` is True where no figure of the log says how far a setting has to go.
    """

    remedy: Remedy
    reason: str
    changes: tuple[Change, ...] = ()
    useless: tuple[Useless, ...] = ()
    arithmetic: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    price: Price | None = None
    blind: bool = False
    kv_bytes_after: float | None = None
    """What the KV cache is expected to have then, for the price."""


@dataclass(frozen=True, slots=True)
class Target:
    """A value that arithmetic asks for, before it meets the operator's bounds.

    ``exact`` False means that the value is a careful guess, so the bound itself may be tried
    where the guess lies a little beyond it. ``blind``: the guess rests on no figure of the log.
    """

    setting: str
    value: float
    arithmetic: tuple[str, ...]
    exact: bool
    blind: bool = False


def lower(
    case: Case,
    target: Target,
    *,
    reason: str,
    useless: tuple[Useless, ...],
    options: tuple[str, ...],
) -> Proposal:
    """Lower one setting to the target if the bounds allow it, otherwise hold and say why."""
    before = case.now(target.setting)
    allowed = case.range_of(target.setting)
    if before is None or allowed is None:
        why = f"{target.setting} may not be changed (adapt.{target.setting} = false)"
        return _held(reason, why, target, useless, options)
    value = target.value
    if value < allowed.low:
        near = not target.exact and value * 2 >= allowed.low and allowed.low < before
        if not near:
            low = _shown(allowed.low)
            why = f"{target.setting} would have to go to {_shown(value)}, allowed is {low}"
            return _held(reason, why, target, useless, options)
        value = allowed.low
    if value >= before:
        why = f"{target.setting} is at {_shown(before)} already, and no lower value is allowed"
        return _held(reason, why, target, useless, options)
    fraction = target.setting == "gpu_memory_utilization"
    after = value if fraction else int(value)
    shown = case.in_force.get(target.setting)
    return Proposal(
        Remedy.RELAUNCH_WITH,
        reason,
        (
            Change(
                target.setting, _plain(before, fraction=fraction) if shown is None else shown, after
            ),
        ),
        useless,
        target.arithmetic,
        options,
        blind=target.blind,
    )


def changes_to(case: Case, values: Mapping[str, float]) -> tuple[Change, ...]:
    """The changes from what was in force to these values; what stays the same is left out."""
    changes = []
    for name, value in values.items():
        before = case.now(name)
        if before is None or before == value:
            continue
        fraction = name == "gpu_memory_utilization"
        shown = case.in_force.get(name)
        was = _plain(before, fraction=fraction) if shown is None else shown
        changes.append(Change(name, was, _plain(value, fraction=fraction)))
    return tuple(changes)


def _plain(value: float, *, fraction: bool) -> float | int:
    return value if fraction else int(value)


def _held(
    reason: str,
    why: str,
    target: Target,
    useless: tuple[Useless, ...],
    options: tuple[str, ...],
) -> Proposal:
    return Proposal(
        Remedy.HOLD,
        f"{reason}; {why}",
        useless=useless,
        arithmetic=target.arithmetic,
        options=options,
    )


def _shown(value: float) -> str:
    return format(value, "g") if value < 1 else format(int(value), "d")


def gib(value: float) -> str:
    """Bytes for a person: GiB with two decimals, MiB below one GiB."""
    return f"{value / GIB:.2f} GiB" if abs(value) >= GIB else f"{value / MIB:.0f} MiB"


def round_down(value: float, step: int) -> int:
    """The largest multiple of the step not above the value; small values stay as they are."""
    return int(value // step * step) if value >= step else int(value)
