"""Finds the vLLM program in a command that may begin with wrappers, and its interpreter."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vllm_warden.core.secrets import mask_words

MODULE_PREFIX = "vllm.entrypoints"


@dataclass(frozen=True, slots=True)
class EngineProgram:
    """What to run: the words up to ``vllm``, and the Python that runs it."""

    words: tuple[str, ...]
    interpreter: str


class NoEngineProgram(Exception):  # noqa: N818
    """The command has no vLLM program in it that could be asked."""


def find_engine(command: Sequence[str], path: str | None = None) -> EngineProgram:
    """The first word named vllm, or ``PYTHON -m vllm.entrypoints...``. Raises NoEngineProgram.

    ``path`` is the engine's PATH; wrappers before (prlimit, numactl, nice, env) are skipped.
    """
    for at, word in enumerate(command):
        if Path(word).name == "vllm":
            return _script(word, path)
        if word == "-m" and at > 0 and at + 1 < len(command):
            module = command[at + 1]
            if module == "vllm" or module.startswith(MODULE_PREFIX):
                interpreter = _on_path(_python_before(command, at), path)
                return EngineProgram((interpreter, "-m", module), interpreter)
    raise NoEngineProgram(
        f"no vLLM program in `{' '.join(mask_words(command))}`: neither a word named vllm "
        "nor -m vllm..."
    )


def _script(word: str, path: str | None) -> EngineProgram:
    program = _on_path(word, path)
    try:
        with Path(program).open("rb") as opened:
            first = opened.readline(512)
    except OSError as error:
        raise NoEngineProgram(f"cannot read {program}: {error.strerror}") from error
    words = os.fsdecode(first[2:]).split() if first.startswith(b"#!") else []
    if words and words[0] == "/bin/sh":
        words = _long_shebang(Path(program))
    if words and Path(words[0]).name == "env":
        words = words[2:] if words[1:2] == ["-S"] else words[1:]
        words = [_on_path(words[0], path), *words[1:]] if words else []
    if not words:
        raise NoEngineProgram(f"{program} is no Python script: cannot tell its interpreter")
    return EngineProgram((program,), words[0])


def _long_shebang(program: Path) -> list[str]:
    """Installers write ``#!/bin/sh`` and then ``'''exec' /long/path/python "$0" "$@"``."""
    with program.open("rb") as opened:
        opened.readline(512)
        second = os.fsdecode(opened.readline(4096))
    marker = "'''exec' "
    if not second.startswith(marker):
        return []
    return [second.removeprefix(marker).split(' "$0"')[0].strip().strip('"')]


def _python_before(command: Sequence[str], at: int) -> str:
    """The Python that -m belongs to: the last word before it whose name says so."""
    for word in reversed(command[:at]):
        if Path(word).name.startswith(("python", "pypy")):
            return word
    return command[at - 1]


def _on_path(word: str, path: str | None) -> str:
    found = shutil.which(word, path=path)
    if found is None:
        raise NoEngineProgram(f"no program {word} on the PATH")
    return found
