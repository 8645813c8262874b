"""A launch that a person asked for with other settings than learned ones, and its way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_warden.core.model import SettingValue


class TrialKind(StrEnum):
    CAPACITY = "retry-capacity"
    """The asked settings once more; proven, they stay."""
    GIVEN = "set"
    """Settings for one launch; nothing is learned from its success."""


@dataclass(frozen=True, slots=True)
class Trial:
    """``changes`` are overlaid on the asked settings for one launch; ``by`` asked for it."""

    kind: TrialKind
    by: str
    changes: Mapping[str, SettingValue] = field(default_factory=dict)
