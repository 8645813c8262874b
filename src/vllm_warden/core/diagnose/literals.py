"""Takes a regular expression apart to the literal texts that must stand in what it matches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LEAST = 10
"""Shorter literals prove nothing: they stand in any text."""

_GROUP = re.compile(r"\(\?(?P<kind>:|P<\w+>|[aiLmsux]+\)|[=!]|<[=!])|\((?!\?)")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_REPEATED = re.compile(r"[?*+]\??|\{\d*,?\d*\}\??")
_OPTIONAL = ("?", "*", "{0")
_KINDS_OF_CHARACTER = frozenset("dDwWsSbBAZ")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(slots=True)
class _Branch:
    """One alternative: its literal runs in order, and the groups that are always entered."""

    runs: list[str] = field(default_factory=lambda: [""])
    groups: list[list[_Branch]] = field(default_factory=list)

    def cut(self) -> None:
        if self.runs[-1]:
            self.runs.append("")

    def texts(self) -> tuple[str, ...]:
        longest = max(self.runs, key=len)
        if len(longest) >= LEAST:
            return (longest,)
        inner = [tuple(_texts(group)) for group in self.groups]
        return max(inner, key=lambda texts: min(map(len, texts), default=0), default=())


def literals(pattern: str) -> tuple[str, ...]:
    """For each alternative the longest literal that it needs; () where one needs none.

    ``a long text (?:of|by) x|other`` gives ``("a long text ", "other")`` (short ones are left
    out). The pattern must be one that ``re`` compiles.
    """
    branches, _ = _branches(pattern, 0)
    return tuple(dict.fromkeys(text.strip("\n") for text in _texts(branches)))


def _texts(branches: list[_Branch]) -> Iterator[str]:
    for branch in branches:
        yield from branch.texts()


def _branches(pattern: str, at: int) -> tuple[list[_Branch], int]:
    """The alternatives from here to the end of the group, and where that is."""
    branches = [_Branch()]
    while at < len(pattern) and pattern[at] != ")":
        branch = branches[-1]
        if pattern[at] == "|":
            branches.append(_Branch())
            at += 1
        elif pattern[at] == "(":
            at = _group(pattern, at, branch)
        elif pattern[at] == "[":
            found = _CLASS.match(pattern, at)
            at = found.end() if found else at + 1
            branch.cut()
        elif repeated := _REPEATED.match(pattern, at):
            at = repeated.end()
            if repeated[0].startswith(_OPTIONAL):
                branch.runs[-1] = branch.runs[-1][:-1]
            branch.cut()
        else:
            at = _character(pattern, at, branch)
    return branches, at + 1


def _group(pattern: str, at: int, branch: _Branch) -> int:
    found = _GROUP.match(pattern, at)
    kind = (found["kind"] or ":") if found else ":"
    begin = found.end() if found else at + 1
    if kind.endswith(")"):
        return begin  # flags for the whole pattern
    inner, end = _branches(pattern, begin)
    repeated = _REPEATED.match(pattern, end)
    optional = repeated is not None and repeated[0].startswith(_OPTIONAL)
    if not kind.endswith(("=", "!")) and not optional:
        branch.groups.append(inner)
    branch.cut()
    return repeated.end() if repeated else end


def _character(pattern: str, at: int, branch: _Branch) -> int:
    character = pattern[at]
    if character == "\\":
        escaped = pattern[at + 1]
        if escaped in _KINDS_OF_CHARACTER:
            branch.cut()
        else:
            branch.runs[-1] += _ESCAPED.get(escaped, escaped)
        return at + 2
    if character == ".":
        branch.cut()
    elif character not in "^$":
        branch.runs[-1] += character
    return at + 1
