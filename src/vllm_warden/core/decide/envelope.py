"""What has been learned about an instance: settings proven good, last ready, known bad."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vllm_warden.core.model import Settings, SettingValue
from vllm_warden.core.plan.spec import EngineFacts, ModelFacts

KNOWN_BAD_MAX = 50
_VERSION = 2
"""Where ``envelope_key`` has the engine's version."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Learned for one key; ``changes`` are the settings that differ from the asked ones.

    ``proven`` survived the soak, ``ready`` is the last that became ready, ``decided`` the answer
    to the last failure that no attempt has tried to the end yet; None means none. ``version`` is
    the engine's and ``free_bytes`` the least free GPU memory at launch when they were decided.
    """

    key: str
    proven: Mapping[str, SettingValue] | None = None
    ready: Mapping[str, SettingValue] | None = None
    decided: Mapping[str, SettingValue] | None = None
    known_bad: tuple[str, ...] = ()
    version: str | None = None
    free_bytes: int | None = None

    def start_changes(self) -> Mapping[str, SettingValue]:
        """What a start overlays on the asked settings: proven, else last ready, else decided.

        Never what is known to be bad, where anything else is known; else the asked settings.
        """
        for candidate in (self.proven, self.ready, self.decided):
            if candidate is not None and fingerprint(candidate) not in self.known_bad:
                return candidate
        return {}


def envelope_key(
    asked: Settings, model: ModelFacts, engine: EngineFacts, gpus: tuple[str, ...]
) -> str:
    """What a lesson is valid for: the model, the engine, the GPUs, and what was asked."""
    return json.dumps(
        [model.config_hash, model.weight_bytes, engine.version, sorted(gpus), fingerprint(asked)]
    )


def inherited(key: str, known: Sequence[Envelope]) -> Envelope:
    """The lesson for a key seen first: as another engine version proved it, where one did.

    Model, GPUs and asked settings must be the same. What died under that version may live now.
    """
    mine = _parts(key)
    for envelope in reversed(known):
        theirs = _parts(envelope.key)
        changes = envelope.proven if envelope.proven is not None else envelope.ready
        if changes and mine and len(mine) == len(theirs) and _same_but_version(mine, theirs):
            return replace(envelope, key=key, known_bad=(), decided=None)
    return Envelope(key)


def accepted(envelope: Envelope, asked: Settings) -> Envelope:
    """The lesson once its settings are the asked ones: nothing differs any more."""
    parts = _parts(envelope.key)
    if not parts:
        return Envelope(envelope.key)
    key = json.dumps([*parts[:-1], fingerprint(asked)])
    return Envelope(key, proven={} if envelope.proven is not None else None)


def _parts(key: str) -> list[object]:
    try:
        parts = json.loads(key)
    except ValueError:
        return []
    return parts if isinstance(parts, list) else []


def _same_but_version(one: list[object], other: list[object]) -> bool:
    return all(a == b for at, (a, b) in enumerate(zip(one, other, strict=True)) if at != _VERSION)


def fingerprint(settings: Mapping[str, SettingValue]) -> str:
    """Settings as one comparable text."""
    return json.dumps(dict(settings), sort_keys=True)


def note_ready(envelope: Envelope, changes: Mapping[str, SettingValue]) -> Envelope:
    return replace(envelope, ready=dict(changes), decided=None)


def note_decided(
    envelope: Envelope,
    changes: Mapping[str, SettingValue],
    version: str | None = None,
    free_bytes: int | None = None,
) -> Envelope:
    """Keep the answer to a failure until an attempt has shown whether it is right."""
    return replace(envelope, decided=dict(changes), version=version, free_bytes=free_bytes)


def note_proven(envelope: Envelope, changes: Mapping[str, SettingValue]) -> Envelope:
    """They have served long enough: whatever died with them before is no longer held against."""
    known_bad = tuple(bad for bad in envelope.known_bad if bad != fingerprint(changes))
    return replace(
        envelope, proven=dict(changes), ready=dict(changes), decided=None, known_bad=known_bad
    )


def note_bad(envelope: Envelope, changes: Mapping[str, SettingValue]) -> Envelope:
    """Remember that these died for a reason that they would meet again."""
    bad = fingerprint(changes)
    if bad in envelope.known_bad:
        return envelope
    return replace(envelope, known_bad=(*envelope.known_bad, bad)[-KNOWN_BAD_MAX:])
