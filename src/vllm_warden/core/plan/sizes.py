"""Reads sizes as people and vLLM write them."""

from __future__ import annotations

import re

_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kKmMgGtT]?)(i?)([bB]?)")
"""Longer numbers are no sizes; beyond 4,300 digits Python would not even read them."""
SIZE_MOST = 1 << 48
"""No size and no count of an engine is larger; what is, is a slip of the pen."""
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_bytes(text: str) -> int | None:
    """Bytes meant by ``text``, None where it is no size.

    As vLLM 0.32's ``human_readable_int``: a lower-case letter is decimal (``16m`` = 16,000,000,
    ``25.6k`` = 25,600) and an upper-case one binary (``16M`` = 16 x 2^20) and then takes no
    fraction. Beyond vLLM, ``KiB``/``MiB``/``GiB``/``TiB`` are binary; see ``is_vllm_size``.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    number, letter, binary_mark, unit = match.groups()
    if binary_mark and not (letter and unit):
        return None
    if unit and not binary_mark:
        # "16MB" and "16 B" mean different things to different programs.
        return None
    binary = bool(binary_mark) or letter.isupper()
    if "." in number and (not letter or (binary and not binary_mark)):
        return None
    base = 1024 if binary else 1000
    return (
        int(float(number) * base ** _POWER[letter.lower()])
        if "." in number
        else (int(number) * base ** _POWER[letter.lower()])
    )


def is_vllm_size(text: str) -> bool:
    """True when vLLM's own parser takes the text as it is written."""
    return parse_bytes(text) is not None and "i" not in text and " " not in text.strip()
