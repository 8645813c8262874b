"""Asks an engine's installation which of the catalogue's texts and functions its source lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vllm_warden.adapters.engine_probe import look_up
from vllm_warden.adapters.engine_probe.command import NoEngineProgram, find_engine
from vllm_warden.adapters.engine_probe.engine import ProbeFailed, ask_interpreter, run_apart

LOOK_UP_SECONDS = 120.0
"""Reading 40 MB of source takes two seconds from the page cache, far more from a cold disk."""

_ANSWER = re.compile(r"^LOOKED (\{.*\})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lacking:
    """The version of an installed vLLM, where it lies, and what its source does not hold."""

    version: str
    tree: str
    absent: frozenset[str]


def lacking(
    command: Sequence[str],
    texts: Sequence[str],
    functions: Sequence[str],
    path: str | None = None,
) -> Lacking:
    """Blocks for seconds, offline; never imports the engine. ``path`` is the engine's PATH.

    Raises ProbeFailed where the installation cannot be found or read.
    """
    try:
        interpreter = find_engine(command, path).interpreter
    except NoEngineProgram as error:
        raise ProbeFailed(str(error)) from error
    version = ask_interpreter(interpreter).version
    question = json.dumps({"texts": list(texts), "functions": list(functions)})
    program = Path(look_up.__file__).read_text(encoding="utf-8")
    said = run_apart([interpreter, "-c", program], LOOK_UP_SECONDS, question)
    found = _ANSWER.search(said)
    try:
        answer = json.loads(found[1]) if found else {}
        tree, absent = str(answer["tree"]), frozenset(answer["texts"] + answer["functions"])
    except (ValueError, KeyError, TypeError) as error:
        raise ProbeFailed(f"{interpreter} did not say what its vLLM holds") from error
    if not tree:
        raise ProbeFailed(f"{interpreter} has no package vllm")
    return Lacking(version, tree, absent)


def absent_from_source(
    command: Sequence[str],
    texts: Sequence[str],
    functions: Sequence[str],
    path: str | None = None,
) -> frozenset[str] | None:
    """What ``lacking`` found absent; None where the installation cannot be looked into."""
    try:
        return lacking(command, texts, functions, path).absent
    except ProbeFailed:
        return None
