"""Compiles the NVML stand-in, once for each version of its source."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from vllm_warden.simulation.host import ENVIRONMENT

SOURCE = Path(__file__).with_name("nvml.c")
LIBRARY = "libnvidia-ml.so.1"


class CannotBuild(Exception):  # noqa: N818 - reads as the sentence it starts
    """The stand-in could not be compiled; the message says what to install."""


def cache_directory() -> Path:
    """Where compiled libraries are kept: ``$XDG_CACHE_HOME/vllm-warden`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "vllm-warden" / "simulation"


def nvml_library(cache: Path | None = None) -> Path:
    """Path of the compiled ``libnvidia-ml.so.1``; its folder belongs on LD_LIBRARY_PATH.

    Raises CannotBuild where there is no C compiler or it fails.
    """
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    library = (cache or cache_directory()) / digest / LIBRARY
    if not library.exists():
        _compile(library)
    return library


def driver_environment(gpus: Path) -> dict[str, str]:
    """What makes a program see the simulated GPUs of a host's directory (``host.make_host``).

    Raises CannotBuild.
    """
    return {"LD_LIBRARY_PATH": str(nvml_library().parent), ENVIRONMENT: str(gpus)}


def _compile(library: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise CannotBuild(
            "cannot build the simulated GPU driver: no C compiler (cc, gcc) on PATH\n"
            "install one: apt-get install gcc libc6-dev"
        )
    library.parent.mkdir(parents=True, exist_ok=True)
    # Two processes may build at once: each into a file of its own, renamed when complete.
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        output = Path(scratch) / LIBRARY
        flags = ["-O2", "-fPIC", "-shared", f"-Wl,-soname,{LIBRARY}"]
        done = subprocess.run(
            [compiler, *flags, "-o", str(output), str(SOURCE)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            first = (done.stderr.strip().splitlines() or ["no message"])[0]
            raise CannotBuild(
                f"cannot build the simulated GPU driver: {compiler} failed: {first}\n"
                "install the C library's headers: apt-get install gcc libc6-dev"
            )
        output.replace(library)
