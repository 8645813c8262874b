"""Runs of real vLLM from one fork server, each with its log in a file of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.engine.conftest import ENGINE, OFFLINE, ROOT

RUN_SECONDS = 240
"""A run takes a few; a machine may be busy."""
QUIET = {
    "NO_COLOR": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",  # nothing is compiled: the frames are those of eager code
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """One run of ``vllm serve`` that has ended; ``exit_status`` is negative for a signal."""

    log: Path
    exit_status: int
    cpu_seconds: float


class ForkedEngine:
    """Use as a context manager; its files lie below ``directory``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runs = 0
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            **OFFLINE,
            **QUIET,
            "VLLM_CACHE_ROOT": str(directory / "cache"),
        }
        self.server = subprocess.Popen(
            [ENGINE.with_name("python"), "-m", "tests.engine.fork_server", directory],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        self._answer("ready")
        return self

    def __exit__(self, *_: object) -> None:
        self.server.communicate()  # its input ends, and so does it

    def run(
        self,
        arguments: list[str],
        environment: Mapping[str, str] | None = None,
        fault: Mapping[str, Any] | None = None,
        meanwhile: Callable[[int], None] = lambda _: None,
    ) -> Ended:
        """``vllm serve`` with these arguments until it ends; ``meanwhile`` gets its pid."""
        self.runs += 1
        own = self.directory / str(self.runs)
        own.mkdir()
        request = {
            "argv": ["serve", *arguments],
            "environment": {"TMPDIR": str(own), **(environment or {})},
            "log": str(own / "log"),
            "directory": str(own),
            "fault": fault,
            "seconds": RUN_SECONDS,
        }
        assert self.server.stdin is not None
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        meanwhile(self._answer("pid")["pid"])
        ended = self._answer("exit_status")
        return Ended(own / "log", ended["exit_status"], ended["cpu_seconds"])

    def _answer(self, key: str) -> dict[str, Any]:
        assert self.server.stdout is not None
        line = self.server.stdout.readline()
        assert line, "the fork server has ended; its last words are in the captured stderr"
        answer: dict[str, Any] = json.loads(line)
        assert key in answer, answer
        return answer
