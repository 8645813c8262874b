"""``vllm-warden serve`` in front of the stand-in engine: what it prints and how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wardens import complete, free_port
from vllm_warden.api.client import Client, DaemonUnreachable
from vllm_warden.simulation.program import write_program

pytestmark = pytest.mark.slow

Serve = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return write_program(tmp_path / "bin")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start ``serve`` on CPU with its state in one place; ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object) -> subprocess.Popen[str]:
        options = ["--name", "x", "--gpus", "", "--state-directory", str(tmp_path / "state")]
        process = subprocess.Popen(
            [sys.executable, "-m", "vllm_warden", "serve", *options, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "WARDEN_SIMULATED_SPEED": "50"},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=60)
        if process.poll() is None:
            process.kill()
            process.wait()


def until_state(tmp_path: Path, state: str) -> dict[str, object]:
    client = Client(str(tmp_path / "state" / "api.sock"))
    deadline = time.monotonic() + 30
    found: dict[str, object] = {}
    while time.monotonic() < deadline:
        with contextlib.suppress(DaemonUnreachable):
            found = client.get("/v1/instances/x")
            if found["state"] == state:
                return found
        time.sleep(0.1)
    raise AssertionError(f"not {state}: {found}")


def ask(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    socket = str(tmp_path / "state" / "api.sock")
    return subprocess.run(
        [sys.executable, "-m", "vllm_warden", "--socket", socket, *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_it_listens_where_vllm_would_and_says_whom_to_ask(
    serve: Serve, program: Path, model: Path, tmp_path: Path
) -> None:
    port = free_port()
    process = serve(program, "serve", model, "--port", port)
    document = until_state(tmp_path, "ready")

    assert f"--host 0.0.0.0 --port {port}" in str(document["launch_command"])
    assert complete(port, str(model))["choices"]
    second = serve(program, "serve", model, "--port", free_port())
    assert second.wait(30) == 4
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    socket = tmp_path / "state" / "api.sock"
    for command in ("why", "status"):
        assert f"vllm-warden --socket {socket} {command} x" in err
    assert "autostart" not in err
    assert "runs as root" not in err
    assert err.splitlines()[-1] == "vllm-warden: stopped as asked"


def test_it_starts_again_although_somebody_stopped_it_before(
    serve: Serve, program: Path, model: Path, tmp_path: Path
) -> None:
    line = (program, "serve", model, "--port", free_port())
    first = serve(*line)
    until_state(tmp_path, "ready")
    assert ask(tmp_path, "stop", "x", "--now").returncode == 0
    assert first.wait(60) == 0

    serve(*line)
    until_state(tmp_path, "ready")


def test_arguments_that_the_engine_refuses_are_exit_2_in_every_run(
    serve: Serve, program: Path, model: Path
) -> None:
    for _ in range(2):
        process = serve(program, "serve", model, "--port", free_port(), "--no-such-flag", "1")
        _, err = process.communicate(timeout=60)
        assert process.returncode == 2, err
        assert "--no-such-flag" in err


def test_a_missing_program_is_exit_2_also_when_an_engine_ran_here_before(
    serve: Serve, program: Path, model: Path, tmp_path: Path
) -> None:
    first = serve(program, "serve", model, "--port", free_port())
    until_state(tmp_path, "ready")
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0

    process = serve("/no/such/vllm", "serve", model, "--port", free_port())
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert "/no/such/vllm" in err.splitlines()[-1]


def test_help_in_the_line_is_the_engines_own(serve: Serve, program: Path, model: Path) -> None:
    process = serve(program, "serve", model, "--help")
    out, _ = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "usage: vllm serve" in out
    assert "--tensor-parallel-size" in out
