"""Removes secrets from a log line, once, when evidence is gathered."""

from __future__ import annotations

import re

MASK = "***"

HINT = re.compile(
    r"key|token|secret|passw|credential|bearer|authoriz|hf_|sk-|@|gh[pousr]_", re.IGNORECASE
)
"""Cheap first look: most lines hold none of these and are returned as they are."""

NAME = (
    r"(?:[A-Za-z0-9_-]*(?:api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?token"
    r"|hf[_-]?token|secret|passw(?:or)?d|passphrase|credentials?)[A-Za-z0-9_-]*"
    r"|[A-Za-z0-9]*_TOKEN|token)"
)
VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\[[^\]]*\]|[^\s,;)}\]'"]+)"""

RULES = (
    # URLs with user info: https://user:password@host
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^/\s@'\"]+@", re.IGNORECASE), rf"\1{MASK}@"),
    (re.compile(r"\b(authorization\W+(?:bearer|basic))\s+[^\s'\"]+", re.IGNORECASE), rf"\1 {MASK}"),
    (re.compile(r"\b(bearer)\s+[A-Za-z0-9._~+/=-]{12,}", re.IGNORECASE), rf"\1 {MASK}"),
    # tokens that are known by their form: Hugging Face, OpenAI style, GitHub, AWS
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}"), MASK),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{8,}"), MASK),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{16,}"), MASK),
    # --api-key VALUE [VALUE...], one word after the flag and those without a dash that follow
    (re.compile(rf"(--{NAME})(\s+)(?!-)\S+(?:[ \t]+(?!-)\S+)*", re.IGNORECASE), rf"\1\2{MASK}"),
    # name=value, name: value, 'name': 'value'
    (
        re.compile(rf"(\b{NAME}['\"]?\s*[=:]\s*)(?!None\b|null\b){VALUE}", re.IGNORECASE),
        rf"\1{MASK}",
    ),
)


def redact(text: str) -> str:
    """The line with every secret-looking value replaced by ``***``; idempotent.

    Names are matched case-insensitively: values after ``--api-key``, ``api_key=``, ``HF_TOKEN=``,
    ``password:``; bearer tokens; hf_, sk- and gh?_ tokens; user info of URLs. Token counts
    (``max_tokens``, ``tokens=12``) are kept.
    """
    if HINT.search(text) is None:
        return text
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text
