"""A simulated host, and engines on it that are gone when the test ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import is_alive, make_host
from vllm_warden.simulation.models import write_minimax_m25
from vllm_warden.simulation.program import write_program

Answer = TypeVar("Answer")
FAST = "2000"
INCIDENT = ("--tensor-parallel-size", "4", "--max-model-len", "131072")


def until(seen: Callable[[], Answer | None], seconds: float = 20) -> Answer:
    """Ask again and again until there is an answer."""
    deadline = time.monotonic() + seconds
    while not (answer := seen()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)
    return answer


@dataclass
class Engine:
    """A running stand-in engine and everything that a test asks about it."""

    process: subprocess.Popen[bytes]
    log_file: Path
    port: int
    _known: dict[str, int] = field(default_factory=dict)

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def get(
        self, path: str, body: bytes | None = None, timeout: float = 10, **headers: str
    ) -> tuple[int, bytes]:
        """Status and body; 0 when the connection is refused or no answer came in time."""
        url = f"http://127.0.0.1:{self.port}{path}"
        asked = urllib.request.Request(url, data=body, headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=timeout) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 0, b""

    def wait_ready(self) -> None:
        until(lambda: self.get("/health")[0] == 200 or self.process.poll() is not None)
        assert self.get("/health")[0] == 200, self.log[-3000:]

    def wait_log(self, text: str) -> None:
        until(lambda: text in self.log)

    def tree(self) -> dict[str, int]:
        """Title -> pid of all processes below the parent, as /proc shows them."""
        self._known |= descendants(self.process.pid)
        return self._known

    def gone(self) -> bool:
        return not any(is_alive(pid) for pid in self._known.values())

    def end(self) -> None:
        self.tree()
        for pid in (self.process.pid, *self._known.values()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


def descendants(parent: int) -> dict[str, int]:
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            raw = Path(f"/proc/{child}/cmdline").read_bytes()
            found[raw.rstrip(b"\0").split(b"\0")[0].decode()] = int(child)
            found |= descendants(int(child))
    return found


@dataclass(frozen=True)
class Host:
    """Eight simulated GPUs, a model, the program; ``serve`` starts engines on it."""

    directory: Path
    engines: list[Engine]

    @property
    def gpus(self) -> Path:
        return self.directory / "gpus"

    @property
    def model(self) -> Path:
        return self.directory / "model"

    def serve(self, *words: str, model: str | None = None, **environment: str) -> Engine:
        port, number = free_port(), len(self.engines)
        log_file = self.directory / f"log{number}"
        given = {
            "PATH": os.environ["PATH"],
            "NO_COLOR": "1",
            "WARDEN_SIMULATED_GPUS": str(self.gpus),
            "WARDEN_SIMULATED_SPEED": FAST,
            "CUDA_VISIBLE_DEVICES": "0,1,2,3",
        } | environment
        address = ["--host", "127.0.0.1", "--port", str(port)]
        name = model or str(self.model)
        command = [str(self.directory / "bin/vllm"), "serve", name, *address, *words]
        with log_file.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env=given, start_new_session=True
            )
        engine = Engine(process, log_file, port)
        self.engines.append(engine)
        return engine

    def nvml(self, expression: str) -> str:
        """What the real pynvml says, asked in a process that loads the stand-in library."""
        script = (
            "import pynvml as N; N.nvmlInit(); "
            "D = [N.nvmlDeviceGetHandleByIndex(i) for i in range(N.nvmlDeviceGetCount())]; "
            f"print({expression})"
        )
        environment = os.environ | driver_environment(self.gpus)
        command = [sys.executable, "-c", script]
        return subprocess.check_output(command, env=environment, text=True).strip()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    make_host(tmp_path / "gpus")
    write_minimax_m25(tmp_path / "model")
    write_program(tmp_path / "bin")
    made = Host(tmp_path, [])
    yield made
    for engine in made.engines:
        engine.end()
