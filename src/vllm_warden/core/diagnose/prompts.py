"""Replaces what users sent to an engine, where its log quotes it, by its length."""

from __future__ import annotations

import re

from vllm_warden.core.diagnose.long_line import parted

_REQUEST = re.compile(r"(?:Received request|Request \S{1,200} details:|Generated response) ?")
_PAYLOAD = re.compile(r"(?:prompt|output): ")
_TAIL = ", params: "
_REQUEST_WITHIN = 400
"""vLLM 0.8 to 0.33 write ``Received request ID: prompt: '...', params: ...`` or
``Request ID details: prompt: '...', prompt_token_ids: [...]``; responses likewise."""

_DUMP = re.compile(r"Dumping (?:input data|scheduler output)[^:]{0,120}: ")

_NAMED = re.compile(
    r"\b(?:prompt|prompt_token_ids|output_token_ids|prompt_embeds|multi_modal_data)"
    r"['\"]?[ \t]{0,4}[:=][ \t]{0,4}(?=['\"\[])"
)
_ENCLOSED = {
    '"': re.compile(r'"(?:[^"\\]|\\.)*+"'),
    "'": re.compile(r"'(?:[^'\\]|\\.)*+'"),
    "[": re.compile(r"\[(?:'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|[^\]'\"])*+\]"),
}
_LENGTH = re.compile(r"<\d{1,12} characters>\Z")


def hide_prompts(text: str) -> str:
    """The line without its users' words; idempotent, linear in time.

    In a request's own record everything from the prompt up to the last ``, params:`` goes, or to
    the end of the line: no quote inside of a prompt can end it early.
    """
    if not may_hold_prompt(text):
        return text
    kept, note = parted(text)
    return _hidden(kept) + note


def may_hold_prompt(text: str) -> bool:
    """A cheap first look: True for every line in which something would be hidden."""
    return "prompt" in text or "Dumping " in text or "Generated response " in text


def _hidden(text: str) -> str:
    dump = _DUMP.search(text, 0, _REQUEST_WITHIN)
    if dump:
        return text[: dump.end()] + _length(text[dump.end() :])
    request = _REQUEST.search(text, 0, _REQUEST_WITHIN)
    payload = (
        _PAYLOAD.search(text, request.end(), request.end() + _REQUEST_WITHIN) if request else None
    )
    if payload is None or text.startswith("None", payload.end()):
        return _hide_named(text)
    end = text.rfind(_TAIL, payload.end())
    end = len(text) if end < 0 else end
    return text[: payload.end()] + _length(text[payload.end() : end]) + _hide_named(text[end:])


def _hide_named(text: str) -> str:
    parts: list[str] = []
    done = 0
    for name in _NAMED.finditer(text):
        begin = name.end()
        if begin < done:
            continue
        value = _ENCLOSED[text[begin]].match(text, begin)
        end = value.end() if value else len(text)
        if end - begin <= len("''"):
            continue
        parts += (text[done:begin], _length(text[begin:end]))
        done = end
    return "".join(parts) + text[done:]


def _length(payload: str) -> str:
    return payload if _LENGTH.match(payload) else f"<{len(payload)} characters>"
