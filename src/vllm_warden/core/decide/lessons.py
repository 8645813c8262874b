"""Which learned settings a start may use: those that the operator's present bounds allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vllm_warden.core.decide.envelope import Envelope
from vllm_warden.core.decide.knobs import allowed_ranges, effective, number
from vllm_warden.core.model import Mode, Settings, SettingValue
from vllm_warden.core.plan.spec import AdaptSpec, ModelFacts


@dataclass(frozen=True, slots=True)
class Lesson:
    """The changes to start with; ``unused`` says why a learned setting is left out, if one is."""

    changes: Mapping[str, SettingValue]
    unused: str | None = None


def usable_lesson(
    envelope: Envelope, adapt: AdaptSpec, asked: Settings, defaults: Settings, model: ModelFacts
) -> Lesson:
    """The envelope's settings for a start, or none where mode or bounds forbid them by now."""
    changes = envelope.start_changes()
    if not changes:
        return Lesson({})
    learned = ", ".join(f"{name} {value}" for name, value in changes.items())
    if adapt.mode is not Mode.ADAPT:
        return Lesson({}, f'learned {learned} is not used: mode is "{adapt.mode}"')
    ranges = allowed_ranges(adapt, effective(asked, defaults, model))
    for name, value in changes.items():
        allowed, shown = ranges.get(name), number(value)
        if allowed is None:
            return Lesson({}, f"learned {learned} is not used: {name} may not be changed")
        if shown is None or not allowed.low <= shown <= allowed.high:
            return Lesson(
                {},
                f"learned {learned} is not used: {name} may be {allowed.low:g} to {allowed.high:g}",
            )
    return Lesson(changes)
