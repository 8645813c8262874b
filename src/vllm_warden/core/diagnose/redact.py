"""Removes secrets and prompts from a log line, once, when evidence is gathered."""

from __future__ import annotations

from functools import lru_cache

from vllm_warden.core.diagnose.prompts import hide_prompts, may_hold_prompt
from vllm_warden.core.secrets import mask_secrets, may_hold_secret

_HEAD_WITHIN = 240
_REMEMBERED_MAX = 400


def redact(text: str) -> str:
    """The line without secrets, each prompt replaced by its length; idempotent, linear in time."""
    # No hint holds a "]", so a line holds one if and only if one of its two parts does.
    begin = text.find("] ", 0, _HEAD_WITHIN) + 2
    # (An escape sequence may hold one, and hide a hint until it is taken out.)
    if begin > 1 and len(text) - begin < _REMEMBERED_MAX and "\x1b]" not in text:
        try:
            _prove_plain(text[:begin])
            _prove_plain(text[begin:])
        except _NotPlainError:
            pass
        else:
            return text
    return mask_secrets(hide_prompts(text))


class _NotPlainError(Exception):
    """There is a hint: whether there is something to hide takes a closer look."""


@lru_cache(maxsize=512)
def _prove_plain(part: str) -> None:
    """Raises where there is a hint, so that only texts without one are ever remembered.

    A traceback has the same head on each of its lines, and each rank prints the same one.
    """
    if may_hold_prompt(part) or may_hold_secret(part):
        raise _NotPlainError
