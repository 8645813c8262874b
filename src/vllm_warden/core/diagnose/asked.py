"""Reads the settings that an engine says it was started with, from its own log."""

from __future__ import annotations

import re
from collections.abc import Iterable

from vllm_warden.core.diagnose.evidence import LogRecord
from vllm_warden.core.diagnose.grammar import looks_like_json, parse
from vllm_warden.core.diagnose.quoted import is_quotation
from vllm_warden.core.model import SettingValue

_MARKER = "non-default args: {"
_LOOK_AT_RECORDS = 400
"""The record is among an attempt's first; what comes later may quote users."""
_LIMIT = 20_000
_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<number>-?\d{1,20}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)(?![\w.])"
    r"|(?P<word>True|False|None)\b|(?P<mark>[{}\[\]():,]))"
)
_NOT_ENGINE = frozenset({"model", "model_tag", "host", "port", "api_key", "hf_token"})
_CLOSING = {"{": "}", "[": "]", "(": ")"}
_DEEPEST = 8
_STRUCTURE = re.compile(
    r"'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|\"(?:[^\"\\]|\\.)*+(?:\"|\\?\Z)|[\[({\])},]", re.DOTALL
)
"""A text that is not closed goes on to the end; looked for again at each quote, it would take
time that grows with the square of the line."""
_ESCAPE = re.compile(r"\\(.)")


def asked_settings(records: Iterable[LogRecord]) -> dict[str, SettingValue]:
    """Settings of the record "non-default args" (vLLM 0.9 and later), {} where there is none.

    Values that are no plain literal (``<Enum: 1>``, ``CompilationConfig(...)``) are left out. A
    record in JSON form counts only where no other says it: in a log of text it is somebody else's.
    """
    in_json: str | None = None
    for position, record in enumerate(records):
        if position >= _LOOK_AT_RECORDS:
            break
        if _MARKER not in record.text:
            continue
        for line in parse(record.number, record.text):
            if line.source and line.message.startswith(_MARKER) and not is_quotation(line):
                said = line.message[len(_MARKER) - 1 :][:_LIMIT]
                if not looks_like_json(record.text):
                    return _entries(said)
                in_json = in_json or said
    return _entries(in_json) if in_json else {}


def _entries(text: str) -> dict[str, SettingValue]:
    settings: dict[str, SettingValue] = {}
    at = 1
    while True:
        key = _TOKEN.match(text, at)
        if not key or key["text"] is None:
            return settings
        colon = _TOKEN.match(text, key.end())
        if not colon or colon["mark"] != ":":
            return settings
        name = _unquoted(key["text"])
        try:
            value, at = _value(text, colon.end(), 0)
        except ValueError:
            value, at = None, _next_entry(text, colon.end())
        if value is not None and name not in _NOT_ENGINE:
            settings[name] = value
        comma = _TOKEN.match(text, at)
        if not comma or comma["mark"] != ",":
            return settings
        at = comma.end()


def _next_entry(text: str, at: int) -> int:
    """Where the value that begins here ends, though it is no literal: a nested one stays within."""
    depth = 0
    for found in _STRUCTURE.finditer(text, at):
        mark = found[0]
        if mark in "([{":
            depth += 1
        elif depth == 0 and mark in ")]},":
            return found.start()
        elif mark in ")]}":
            depth -= 1
    return len(text)


def _value(text: str, at: int, depth: int) -> tuple[SettingValue | None, int]:
    """One literal at this place and where it ends. Raises ValueError where there is none."""
    token = _TOKEN.match(text, at)
    if token is None or depth > _DEEPEST:
        raise ValueError(text[at : at + 20])
    if token["text"] is not None:
        return _unquoted(token["text"]), token.end()
    if token["number"] is not None:
        number = token["number"]
        return (float(number) if re.search(r"[.e]", number) else int(number)), token.end()
    if token["word"] is not None:
        return {"True": True, "False": False, "None": None}[token["word"]], token.end()
    if token["mark"] not in _CLOSING:
        raise ValueError(text[at : at + 20])
    return _collection(text, token.end(), token["mark"], depth)


def _collection(text: str, at: int, opening: str, depth: int) -> tuple[SettingValue, int]:
    items: list[object] = []
    table: dict[str, object] = {}
    while True:
        token = _TOKEN.match(text, at)
        if token and token["mark"] == _CLOSING[opening]:
            return (table if opening == "{" else items), token.end()
        value, at = _value(text, at, depth + 1)
        token = _TOKEN.match(text, at)
        if opening == "{":
            if not token or token["mark"] != ":":
                raise ValueError(text[at : at + 20])
            table[str(value)], at = _value(text, token.end(), depth + 1)
            token = _TOKEN.match(text, at)
        else:
            items.append(value)
        if token and token["mark"] == ",":
            at = token.end()


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(r"\1", text[1:-1])
