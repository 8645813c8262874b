"""What has been learned about an instance: settings proven good, last ready, known bad."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vllm_warden.core.model import Settings, SettingValue
from vllm_warden.core.plan.spec import EngineFacts, ModelFacts

KNOWN_BAD_MAX = 50


@dataclass(frozen=True, slots=True)
class Envelope:
    """Learned for one key; ``changes`` are the settings that differ from the asked ones.

    ``proven`` survived the soak, ``ready`` is the last that became ready, ``decided`` the answer
    to the last failure that no attempt has tried to the end yet; None means none.
    """

    key: str
    proven: Mapping[str, SettingValue] | None = None
    ready: Mapping[str, SettingValue] | None = None
    decided: Mapping[str, SettingValue] | None = None
    known_bad: tuple[str, ...] = ()

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


def fingerprint(settings: Mapping[str, SettingValue]) -> str:
    """Settings as one comparable text."""
    return json.dumps(dict(settings), sort_keys=True)


def note_ready(envelope: Envelope, changes: Mapping[str, SettingValue]) -> Envelope:
    return replace(envelope, ready=dict(changes), decided=None)


def note_decided(envelope: Envelope, changes: Mapping[str, SettingValue]) -> Envelope:
    """Keep the answer to a failure until an attempt has shown whether it is right."""
    return replace(envelope, decided=dict(changes))


def note_proven(envelope: Envelope, changes: Mapping[str, SettingValue]) -> Envelope:
    return replace(envelope, proven=dict(changes), ready=dict(changes), decided=None)


def note_bad(envelope: Envelope, changes: Mapping[str, SettingValue]) -> Envelope:
    """Remember that these died for a reason that they would meet again."""
    bad = fingerprint(changes)
    if bad in envelope.known_bad:
        return envelope
    return replace(envelope, known_bad=(*envelope.known_bad, bad)[-KNOWN_BAD_MAX:])
