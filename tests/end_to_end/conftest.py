"""The real daemon over the stand-in engine, with and without simulated GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wardens import Warden, free_port
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import make_host
from vllm_warden.simulation.program import write_program


@pytest.fixture
def warden(tmp_path: Path) -> Iterator[Warden]:
    """A host without NVML."""
    made = Warden(tmp_path, log_backend="file", environment={"LD_LIBRARY_PATH": ""})
    yield made
    made.end()


@pytest.fixture
def gpu_warden(tmp_path: Path) -> Iterator[Warden]:
    """A host with two simulated GPUs."""
    gpus = make_host(tmp_path / "gpus", gpus=2)
    made = Warden(tmp_path, log_backend="file", environment=driver_environment(gpus))
    yield made
    made.end()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text('{"vocab_size": 32000, "max_position_embeddings": 4096}')
    return directory


@pytest.fixture
def instance(tmp_path: Path) -> Callable[..., str]:
    program = write_program(tmp_path / "bin")

    def write(name: str, model: object, **more: object) -> str:
        keys = {
            "gpus": "[]",
            "port": free_port(),
            "command": f'["{program}", "serve"]',
            "drain_seconds": 1.0,
            "environment": '{ WARDEN_SIMULATED_SPEED = "50" }',
            **more,
        }
        engine = keys.pop("engine", "")
        tables = keys.pop("tables", "")
        lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
        return (
            f'[instance.{name}]\nmodel = "{model}"\n{lines}\n'
            f"[instance.{name}.engine]\n{engine}\n{tables}\n"
        )

    return write


def cgroup_of(pid: int) -> str:
    """The cgroup2 path of a process."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line.removeprefix("0::")
    return ""


def cgroup2_is_writable() -> bool:
    """Whether we can make a cgroup below our own; asked without the product's code."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, tail = line.partition(" - ")
        if tail.startswith("cgroup2 "):
            own = Path(fields.split()[4] + cgroup_of(os.getpid()))
            probe = own / f"probe-{os.getpid()}"
            try:
                probe.mkdir()
                probe.rmdir()
            except OSError:
                return False
            return True
    return False
