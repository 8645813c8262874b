"""Run by the engine's own interpreter: says which texts and functions the installed vLLM lacks.

Reads {"texts": [...], "functions": [...]} from standard input ("tree" where it is not the
interpreter's own vLLM) and prints one line of JSON behind ``LOOKED``. Imports nothing of the
engine and nothing of ours; needs Python 3.9.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys

_JOINED = re.compile(rb"([\"'])[ \t]*\\?\s*\n\s*[rfbuRFBU]{0,2}\1")
"""Between the halves of a string that the source breaks over two lines."""
_QUOTED = re.compile(rb"\"(?:[^\"\\\n]|\\.){6,}\"|'(?:[^'\\\n]|\\.){6,}'")
_NAMED = re.compile(rb"(?:def|class) (\w+)[(:]")
_LEAST = 10
"""Characters of a text, and half of it, must stand before or behind a value that is filled in."""


def tree() -> str:
    """Where the package lies; finding it does not import it."""
    spec = importlib.util.find_spec("vllm")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return places[0] if places else ""


def printed(root: str) -> tuple[bytes, frozenset[bytes]]:
    """What stands in quotes in its source, a line each, and its functions and classes."""
    quoted: list[bytes] = []
    names: set[bytes] = set()
    for directory, _, files in os.walk(root):
        for name in files:
            if name.endswith(".py"):
                with open(os.path.join(directory, name), "rb") as file:  # noqa: PTH118,PTH123 -- fast
                    source = _JOINED.sub(b"", file.read())
                quoted += _QUOTED.findall(source)
                names.update(_NAMED.findall(source))
    return b"\n".join(quoted), frozenset(names)


def has_text(whole: bytes, text: str) -> bool:
    """Whether it is printed: as it stands, or with a value filled in at its begin or end."""
    wanted = text.strip(" :").encode()
    escaped = wanted.replace(b"'", b"\\'"), wanted.replace(b'"', b'\\"')
    if wanted in whole or (escaped != (wanted, wanted) and any(one in whole for one in escaped)):
        return True
    return _begins_somewhere(whole, wanted) or _ends_somewhere(whole, wanted)


def _begins_somewhere(whole: bytes, wanted: bytes) -> bool:
    for found in re.finditer(re.escape(wanted[:_LEAST]), whole):
        there = whole[found.start() : found.start() + len(wanted)]
        common = _common(there, wanted)
        if 2 * common >= len(wanted) and there[common : common + 1] in (b"{", b"%"):
            return True
    return False


def _ends_somewhere(whole: bytes, wanted: bytes) -> bool:
    for found in re.finditer(re.escape(wanted[-_LEAST:]), whole):
        there = whole[max(0, found.end() - len(wanted)) : found.end()]
        common = _common(there[::-1], wanted[::-1])
        value = there[: len(there) - common].endswith((b"}", b"%s", b"%d"))
        if value and 2 * common >= len(wanted):
            return True
    return False


def _common(there: bytes, wanted: bytes) -> int:
    """How many bytes both have in common at their begin."""
    for at, (one, other) in enumerate(zip(there, wanted)):  # noqa: B905 -- Python 3.9
        if one != other:
            return at
    return min(len(there), len(wanted))


def main() -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    root = asked.get("tree") or tree()
    quoted, names = printed(root) if root else (b"", frozenset())
    answer = {
        "tree": root,
        "texts": [
            text
            for text in asked["texts"]
            if text.encode() not in names and not has_text(quoted, text)
        ],
        "functions": [name for name in asked["functions"] if name.encode() not in names],
    }
    sys.stdout.write(f"LOOKED {json.dumps(answer)}\n")


if __name__ == "__main__":
    main()
