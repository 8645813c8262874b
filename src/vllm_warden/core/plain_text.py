"""Takes out of text what would command a terminal instead of being read."""

from __future__ import annotations

import re

ESCAPES = re.compile(r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""ECMA-48 control sequences, and xterm's commands (OSC) that set titles and links."""


def without_escapes(text: str) -> str:
    """As a terminal shows it, colours and cursor movements left out."""
    return ESCAPES.sub("", text) if "\x1b" in text else text


def one_line(text: str) -> str:
    """Without escape sequences; every other character that prints nothing becomes a blank."""
    plain = without_escapes(text)
    if plain.isprintable():
        return plain
    return "".join(each if each.isprintable() else " " for each in plain)
