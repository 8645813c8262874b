"""Removes secrets and prompts from a log line, once, when evidence is gathered."""

from __future__ import annotations

from vllm_warden.core.diagnose.prompts import hide_prompts
from vllm_warden.core.secrets import mask_secrets


def redact(text: str) -> str:
    """The line without secrets, each prompt replaced by its length; idempotent, linear in time."""
    return mask_secrets(hide_prompts(text))
