"""How options of ``vllm serve`` are named in settings, and which of them an engine has."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*")


def is_option_name(text: str) -> bool:
    """``max_num_seqs``; also one entry of a table, as ``compilation_config.level``."""
    return _NAME.fullmatch(text) is not None


def flag_of(name: str) -> str:
    """The option as a command line has it, ``--max-num-seqs``."""
    return "--" + name.replace("_", "-")


def unknown_options(names: Iterable[str], known_flags: frozenset[str]) -> list[str]:
    """Those that the engine does not have; none where its options are not known."""
    if not known_flags:
        return []
    return [name for name in names if flag_of(name.partition(".")[0]) not in known_flags]
