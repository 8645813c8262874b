"""What outlives the daemon: wanted, hold, attempt numbers, ledger and lessons, as one document.

Times of another boot are set to this boot's zero: CLOCK_BOOTTIME starts anew, and a failure that
is older than the boot then ages from the boot on, which is the careful reading.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from vllm_warden.core.decide.envelope import Envelope
from vllm_warden.core.decide.ledger import LedgerEntry
from vllm_warden.core.decide.observation import OBSERVATIONS_MAX, Observation
from vllm_warden.core.lifecycle.states import Instance, State
from vllm_warden.core.model import Failure, Phase, SettingValue
from vllm_warden.core.plan.spec import InstanceSpec

SCHEMA = 1
ENVELOPES_MAX = 20
AT_REST = frozenset({State.STOPPED, State.HELD, State.FAILED})
Document = dict[str, object]


def to_document(instance: Instance, boot_id: str) -> Document:
    """The instance's part of the state file."""
    envelopes = {envelope.key: envelope for envelope in instance.envelopes}
    if instance.envelope.key:
        envelopes.pop(instance.envelope.key, None)
        envelopes[instance.envelope.key] = instance.envelope
    return {
        "wanted": instance.wanted,
        "wanted_by": instance.wanted_by,
        "held_by": instance.held_by,
        "attempts_made": instance.attempts_made,
        "boot_id": boot_id,
        "reason": instance.reason if instance.state in AT_REST else None,
        "ledger": [_entry_document(entry) for entry in instance.ledger],
        "observations": [_observation_document(one) for one in instance.observations],
        "envelopes": [
            {
                "key": envelope.key,
                "proven": envelope.proven,
                "ready": envelope.ready,
                "decided": envelope.decided,
                "known_bad": list(envelope.known_bad),
                "version": envelope.version,
                "free_bytes": envelope.free_bytes,
            }
            for envelope in list(envelopes.values())[-ENVELOPES_MAX:]
        ],
    }


def is_whole(state: Document) -> bool:
    """Whether the state file can be one of ours: a damaged one must not stop an engine."""
    instances, numbers = state.get("instances"), state.get("numbers", {})
    return (
        (not state or state.get("schema") == SCHEMA)
        and (not state or isinstance(instances, dict))
        and isinstance(numbers, dict)
        and all(_is_count(number) for number in numbers.values())
        and all(_is_instance(one) for one in cast("Document", instances or {}).values())
    )


def _is_instance(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("wanted"), bool)
        and isinstance(value.get("held_by"), str | None)
        and _is_count(value.get("attempts_made", 0))
        and all(
            isinstance(value.get(name, []), list)
            and all(isinstance(item, dict) for item in value.get(name, []))
            for name in ("ledger", "observations", "envelopes")
        )
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def from_document(spec: InstanceSpec, document: Document | None, boot_id: str) -> Instance:
    """The instance as it was; whatever is malformed is left out, never an error."""
    if not document:
        return Instance(spec, wanted=spec.autostart, wanted_by="autostart")
    same_boot = document.get("boot_id") == boot_id
    held_by, reason = document.get("held_by"), document.get("reason")
    instance = Instance(
        spec,
        reason=reason if isinstance(reason, str) and reason else "not started by this daemon yet",
        wanted=document.get("wanted") is True,
        wanted_by=str(document.get("wanted_by") or "an earlier daemon"),
        held_by=held_by if isinstance(held_by, str) else None,
        attempts_made=_whole(document.get("attempts_made")),
        ledger=tuple(
            entry
            for item in _items(document.get("ledger"))
            if (entry := _entry(item, same_boot=same_boot)) is not None
        ),
        observations=tuple(
            observation
            for item in _items(document.get("observations"))
            if (observation := _observation(item, same_boot=same_boot)) is not None
        )[-OBSERVATIONS_MAX:],
        envelopes=tuple(
            _envelope(item) for item in _items(document.get("envelopes")) if item.get("key")
        ),
    )
    if instance.held_by is not None:
        return replace(instance, state=State.HELD, reason=f"hold asked by {instance.held_by}")
    return instance


def with_attempts(instance: Instance, attempts_made: int) -> Instance:
    """Attempt numbers never repeat, even when the state file is older than the history."""
    return replace(instance, attempts_made=max(instance.attempts_made, attempts_made))


def _entry_document(entry: LedgerEntry) -> Document:
    return {
        "at_seconds": entry.at_seconds,
        "failure": entry.failure.value,
        "phase": None if entry.phase is None else entry.phase.value,
        "was_ready": entry.was_ready,
        "after_soak": entry.after_soak,
        "changed": entry.changed,
    }


def _entry(item: Document, *, same_boot: bool) -> LedgerEntry | None:
    try:
        phase = item.get("phase")
        return LedgerEntry(
            at_seconds=float(cast("float", item["at_seconds"])) if same_boot else 0.0,
            failure=Failure(str(item["failure"])),
            phase=None if phase is None else Phase(str(phase)),
            was_ready=item.get("was_ready") is True,
            after_soak=item.get("after_soak") is True,
            changed=item.get("changed") is True,
        )
    except (KeyError, TypeError, ValueError):
        return None


def _observation_document(one: Observation) -> Document:
    return {
        "at_seconds": one.at_seconds,
        "failure": one.failure.value,
        "phase": None if one.phase is None else one.phase.value,
        "settings": dict(one.settings),
        "figures": dict(one.figures),
        "changed": one.changed,
    }


def _observation(item: Document, *, same_boot: bool) -> Observation | None:
    try:
        phase = item.get("phase")
        settings, figures = item.get("settings"), item.get("figures")
        return Observation(
            at_seconds=float(cast("float", item["at_seconds"])) if same_boot else 0.0,
            failure=Failure(str(item["failure"])),
            phase=None if phase is None else Phase(str(phase)),
            settings={name: float(value) for name, value in _numbers(settings).items()},
            figures=_numbers(figures),
            changed=item.get("changed") is True,
        )
    except (KeyError, TypeError, ValueError):
        return None


def _numbers(value: object) -> dict[str, int | float]:
    """The numbers of a table; names among the figures are not needed for a later decision."""
    found = value if isinstance(value, dict) else {}
    return {
        str(name): one
        for name, one in found.items()
        if isinstance(one, int | float) and not isinstance(one, bool)
    }


def _envelope(item: Document) -> Envelope:
    bad, version = item.get("known_bad"), item.get("version")
    return Envelope(
        key=str(item["key"]),
        proven=_settings(item.get("proven")),
        ready=_settings(item.get("ready")),
        decided=_settings(item.get("decided")),
        known_bad=tuple(str(one) for one in bad) if isinstance(bad, list) else (),
        version=version if isinstance(version, str) else None,
        free_bytes=_whole(item.get("free_bytes")) or None,
    )


def _settings(value: object) -> dict[str, SettingValue] | None:
    return cast("dict[str, SettingValue]", value) if isinstance(value, dict) else None


def _items(value: object) -> list[Document]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
