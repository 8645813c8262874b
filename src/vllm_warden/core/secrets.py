"""Knows what a secret looks like, in a log line and among the words of a command line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vllm_warden.core.plain_text import without_escapes

MASK = "***"

HINTS = (
    *("key", "token", "secret", "passw", "passphrase", "credential", "bearer", "authoriz"),
    *("hf_", "sk-", "@", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("github_pat_", "glpat-", "nvapi-", "eyj", "cookie", "signature=", "sig="),
)
"""Cheap first look: most lines hold none of these and are returned as they are. Substring searches
in the lowered line take a twentieth of the time of one expression with all of them."""

SHAPES = (
    # user info of URLs: https://user:password@host
    (re.compile(r"\b([a-z][a-z0-9+.-]{0,20}://)[^/\s@'\"]++@", re.IGNORECASE), rf"\1{MASK}@"),
    (
        re.compile(r"\b(authorization\W{1,8}(?:bearer|basic))\s{1,8}[^\s'\"]++", re.IGNORECASE),
        rf"\1 {MASK}",
    ),
    (re.compile(r"\b(bearer)\s{1,8}[A-Za-z0-9._~+/=-]{12,}+", re.IGNORECASE), rf"\1 {MASK}"),
    # cookies, and what signs a link (storage of models hands such links out)
    (
        re.compile(r"\b((?:set-)?cookie['\"]?[ \t]{0,4}:[ \t]{0,4})[^\r\n]++", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (
        re.compile(
            r"([?&](?:x-amz-signature|x-goog-signature|signature|sig)=)[^\s&'\"]++", re.IGNORECASE
        ),
        rf"\1{MASK}",
    ),
    # tokens known by their form: Hugging Face, OpenAI and its imitators, GitHub, GitLab, NVIDIA,
    # JSON web tokens
    (re.compile(r"\bhf_[A-Za-z0-9]{8,}+"), MASK),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{8,}+"), MASK),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{16,}+"), MASK),
    (re.compile(r"\bgithub_pat_[A-Za-z0-9_]{16,}+"), MASK),
    (re.compile(r"\bglpat-[A-Za-z0-9_-]{12,}+"), MASK),
    (re.compile(r"\bnvapi-[A-Za-z0-9_-]{12,}+"), MASK),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?"), MASK),
)

WORD = re.compile(r"[A-Za-z0-9_-]++")
SECRET_NAME = re.compile(
    r"(?:api|access|private|secret)[_-]?key|secret|passw(?:or)?d|passphrase|credential"
    r"|(?:auth|access|bearer|refresh|hf|hub|github)[_-]?token",
    re.IGNORECASE,
)
TOKEN_NAME = re.compile(r"(?:[A-Z0-9_]*_TOKEN|-*(?i:token))")
"""HF_TOKEN and plain token; not eos_token, max_tokens or num_token, which diagnosis may read."""

ASSIGNED = re.compile(r"(?:\\{0,7}['\"])?[ \t]{0,8}[=:][ \t]{0,8}")
NOTHING = re.compile(r"(?:None|null|True|False|\"\"|'')(?![\w'\"])")
PLAIN = re.compile(r"[^\s,;)}\]'\"]++")
ENCLOSED = {
    '"': re.compile(r'"(?:[^"\\]|\\.)*+"'),
    "'": re.compile(r"'(?:[^'\\]|\\.)*+'"),
    "[": re.compile(r"\[[^\]]*+\]"),
}
ESCAPED_QUOTE = re.compile(r"\\{1,7}['\"]")
"""Begins and ends a string within a string: JSON in a JSON record, or in a repr."""
PREFIXED = re.compile(r"[bBrRuUfF]{1,2}(?=['\"])")
FLAG_VALUES = re.compile(r"[ \t]{1,8}((?!-)\S++(?:[ \t]{1,8}(?!-)\S++)*+)")


def is_secret_name(word: str) -> bool:
    """True for the names of options, variables and fields that hold a secret."""
    return bool(SECRET_NAME.search(word) or TOKEN_NAME.fullmatch(word))


def mask_secrets(text: str) -> str:
    """The text with every secret-looking value replaced by ``***``; idempotent, linear in time.

    Names are matched in any case: values after ``--api-key``, ``api_key=``, ``HF_TOKEN=``,
    ``password:``; bearer tokens; hf_, sk- and gh?_ tokens; user info of URLs. Token counts
    (``max_tokens``) are kept. Where colours would hide a secret from us, and put it together again
    on the terminal, the text comes back without its escape sequences.

    Not recognised: encoded secrets (base64), bare words ("the password is x"), passwords that are
    not named, and what is spread over lines.
    """
    masked = _masked(text)
    if "\x1b" not in masked:
        return masked
    plain = without_escapes(masked)
    without_colours = _masked(plain)
    return masked if without_colours == plain else without_colours


def _masked(text: str) -> str:
    if not _has_hint(text):
        return text
    for pattern, replacement in SHAPES:
        text = pattern.sub(replacement, text)
    return _mask_named_values(text)


def mask_words(words: Sequence[str]) -> list[str]:
    """The words of a command line: also what follows a secret's option, whatever blanks it has."""
    masked = []
    follows_secret = False
    for word in words:
        if follows_secret and not word.startswith("-"):
            masked.append(MASK)
            continue
        name, assigned, value = word.partition("=")
        follows_secret = not assigned and word.startswith("--") and is_secret_name(word)
        is_named = bool(value) and _is_one_name(name) and is_secret_name(name)
        masked.append(f"{name}={MASK}" if is_named else mask_secrets(word))
    return masked


def _is_one_name(text: str) -> bool:
    return WORD.fullmatch(text) is not None


def may_hold_secret(text: str) -> bool:
    """A cheap first look: True for every text in which something would be masked."""
    return _has_hint(text) or ("\x1b" in text and _has_hint(without_escapes(text)))


def _has_hint(text: str) -> bool:
    lowered = text.lower()
    for hint in HINTS:  # noqa: SIM110 -- a generator costs more than all the searches
        if hint in lowered:
            return True
    return False


def _mask_named_values(text: str) -> str:
    parts: list[str] = []
    done = 0
    for word in WORD.finditer(text):
        if word.start() < done or not is_secret_name(word[0]):
            continue
        span = _value_after(text, word)
        if span is not None:
            parts += (text[done : span[0]], MASK)
            done = span[1]
    return "".join(parts) + text[done:]


def _value_after(text: str, word: re.Match[str]) -> tuple[int, int] | None:
    """Where the value of a named secret begins and ends, None when no value follows."""
    assigned = ASSIGNED.match(text, word.end())
    if assigned is None:
        values = FLAG_VALUES.match(text, word.end()) if word[0].startswith("--") else None
        return values.span(1) if values else None
    begin = assigned.end()
    if begin == len(text) or NOTHING.match(text, begin):
        return None
    if escaped := ESCAPED_QUOTE.match(text, begin):
        end = text.find(escaped[0], escaped.end())
        return begin, len(text) if end < 0 else end + len(escaped[0])
    prefix = PREFIXED.match(text, begin)
    opened = prefix.end() if prefix else begin
    enclosed = ENCLOSED.get(text[opened])
    found = (enclosed or PLAIN).match(text, opened)
    if found is not None:
        return begin, found.end()
    # A value that is opened and not closed goes on to the end of the line.
    return (begin, len(text)) if enclosed else None
