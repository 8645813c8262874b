"""Builds the little engine of the timings, and a vLLM installation around it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("engine.c")
VERSION = "0.15.1"
LIMIT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Engine:
    """Where the program is, and the files it stamps."""

    directory: Path

    @property
    def program(self) -> Path:
        return self.directory / "bin" / "vllm"

    @property
    def starts(self) -> Path:
        return self.directory / "starts"

    @property
    def ends(self) -> Path:
        return self.directory / "ends"

    def environment(self, replay: Path | None = None) -> dict[str, str]:
        found = {"BENCH_STARTS": str(self.starts), "BENCH_ENDS": str(self.ends)}
        return found if replay is None else found | {"BENCH_REPLAY": str(replay)}

    def start_stamps(self) -> list[tuple[int, int]]:
        """(pid, CLOCK_BOOTTIME in nanoseconds) of every start so far."""
        return _stamps(self.starts)

    def end_stamps(self) -> list[tuple[int, int]]:
        """(pid, CLOCK_REALTIME in nanoseconds) after every last line so far."""
        return _stamps(self.ends)

    def next_start(self, after: int) -> tuple[int, int]:
        """Wait for one start more than ``after``. Raises TimeoutError."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < deadline:
            stamps = self.start_stamps()
            if len(stamps) > after:
                return stamps[after]
            time.sleep(0.01)
        raise TimeoutError(f"no start number {after + 1} within {LIMIT_SECONDS:g} s")


def build(directory: Path) -> Engine:
    """Compile the engine and install it as ``bin/vllm`` beside a package ``vllm``.

    The package is only metadata in a venv of its own: asking for the engine's version costs what
    it costs with a real vLLM, the start of its Python.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("cannot run the benchmarks: no C compiler: apt-get install gcc libc6-dev")
    venv = directory / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    packages = next(venv.glob("lib/python*/site-packages"))
    metadata = packages / f"vllm-{VERSION}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\n")
    engine = Engine(directory)
    engine.program.parent.mkdir()
    interpreter = engine.program.with_name("engine")
    define = f'-DBENCH_PYTHON="{python}"'
    subprocess.run([compiler, "-O2", define, "-o", interpreter, SOURCE], check=True)
    engine.program.write_text(f"#!{interpreter}\n")
    engine.program.chmod(0o755)
    return engine


def _stamps(path: Path) -> list[tuple[int, int]]:
    if not path.exists():
        return []
    words = [line.split() for line in path.read_text().splitlines()]
    return [(int(pid), int(at)) for pid, at in words]
