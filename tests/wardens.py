"""A real daemon for tests: started as a process, asked over its socket, ended by its pid."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vllm_warden.api.client import Client, DaemonUnreachable

STOP_SECONDS = 90.0
PATIENCE = 4
"""How much longer than it should take is waited for on a machine that has other work."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Warden:
    """One daemon with its configuration, state and log below a directory."""

    def __init__(self, directory: Path, *, log_backend: str, environment: dict[str, str]) -> None:
        self.directory = directory
        self.socket = directory / "s"
        self.log_backend = log_backend
        self.environment = environment
        self.config = directory / "config.toml"
        self.output = directory / "output"
        self.process: subprocess.Popen[bytes] | None = None
        self.client = Client(str(self.socket))

    def write_config(self, *instances: str) -> None:
        """The daemon's own table, then the given tables."""
        head = (
            f'[daemon]\nsocket = "{self.socket}"\nstate_directory = "{self.directory}/state"\n'
            f'log_backend = "{self.log_backend}"\n'
        )
        self.config.write_text("\n".join((head, *instances)))

    def start(self, wait_seconds: float = 15.0) -> None:
        """Start the daemon and wait until it answers."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "vllm_warden.daemon.main", "--config", str(self.config)],
                stdout=output,
                stderr=output,
                env={**os.environ, **self.environment},
            )
        self.until(self._answers, wait_seconds, "the daemon answers")

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output.read_text()
        try:
            self.client.get("/v1/status")
        except DaemonUnreachable:
            return False
        return True

    def stop(self) -> int:
        """SIGTERM, as systemd does; returns the exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()

    def end(self) -> None:
        """Stop it; where it was killed, what it left is ended by one more daemon."""
        if self.process is not None and self.process.poll() == -signal.SIGKILL:
            self.start()
        if self.process is not None:
            self.stop()

    def status(self, name: str) -> dict[str, Any]:
        """The instance's entry in ``status``."""
        document: Any = self.client.get("/v1/status")
        return next(one for one in document["instances"] if one["name"] == name)

    def incidents(self, name: str) -> list[dict[str, Any]]:
        """All incidents in full, oldest first."""
        listed: Any = self.client.get(f"/v1/instances/{name}/incidents")
        return [
            dict(self.client.get(f"/v1/incidents/{one['number']}"))
            for one in reversed(listed["incidents"])
        ]

    def events(self, name: str) -> list[dict[str, Any]]:
        document: Any = self.client.get("/v1/events?after=0")
        return [one for one in document["events"] if one["instance"] == name]

    def until_state(self, name: str, *states: str, seconds: float) -> dict[str, Any]:
        """Wait for one of the states; a failure shows the story so far."""
        self.until(
            lambda: self.status(name)["state"] in states,
            seconds,
            f"{name} is {' or '.join(states)}",
        )
        return self.status(name)

    def until_reason(self, name: str, state: str, *parts: str, seconds: float) -> dict[str, Any]:
        """Wait until it is in the state for a reason that names all the parts."""

        def reached() -> bool:
            status = self.status(name)
            return status["state"] == state and all(part in status["reason"] for part in parts)

        self.until(reached, seconds, f"{name} is {state} because of {parts}")
        return self.status(name)

    def until(self, reached: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds * PATIENCE
        while not reached():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:.0f} s: {what}\n{self.story()}")
            time.sleep(0.1)

    def story(self) -> str:
        """The daemon's own output and status, for a failing test."""
        text = self.output.read_text(errors="replace")[-6000:]
        with contextlib.suppress(Exception):
            text += json.dumps(self.client.get("/v1/status"), indent=1)[-3000:]
        return text

    def command(self, *words: str, seconds: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run ``vllm-warden`` against this daemon, as a person would."""
        return subprocess.run(
            [sys.executable, "-m", "vllm_warden", "--socket", str(self.socket), *words],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, **self.environment},
        )


def complete(port: int, model: str, seconds: float = 60.0, *, tokens: int = 4) -> dict[str, Any]:
    """One completion from an engine on loopback, of exactly so many tokens."""
    asked = {"model": model, "prompt": "hello", "max_tokens": tokens, "ignore_eos": True}
    body = json.dumps(asked).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions", body, {"content-type": "application/json"}
    )
    with _opener().open(request, timeout=seconds) as answer:
        return dict(json.load(answer))


def requests_running(port: int) -> int:
    """How many an engine on loopback says that it works on."""
    with _opener().open(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    counts = [line for line in lines if line.startswith("vllm:num_requests_running")]
    return int(float(counts[0].split()[-1]))


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def living(pids: list[int]) -> list[int]:
    """Those of the pids that still run (a zombie does not)."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX":
                found.append(pid)
    return found


@contextlib.contextmanager
def running(warden: Warden) -> Iterator[Warden]:
    """Start it, and stop it whatever happens."""
    warden.start()
    try:
        yield warden
    finally:
        warden.stop()
