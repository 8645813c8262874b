"""Runs one real daemon for a benchmark, from a settings file at its defaults."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vllm_warden.api.client import ApiError, Client, DaemonUnreachable

INSTANCE = "bench"
READY_SECONDS = 60.0
STOP_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What one benchmark's daemon is told; everything else stays at its default."""

    directory: Path
    log_backend: str
    program: Path
    model: Path | str = "m"
    gpus: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    engine: Mapping[str, int | float] = field(default_factory=dict)
    restart: Mapping[str, int | float] = field(default_factory=dict)
    daemon_environment: Mapping[str, str] = field(default_factory=dict)
    autostart: bool = True
    instances: int = 1
    """Further ones are named after the first, and move on by one GPU each."""
    gpus_of_host: int = 1


@dataclass(slots=True)
class Warden:
    """A running daemon."""

    process: subprocess.Popen[bytes]
    client: Client
    port: int
    start: Callable[[], subprocess.Popen[bytes]]

    def replace(self) -> float:
        """Kill the daemon and start the next one; the wall time at which that was started."""
        self.process.kill()
        self.process.wait()
        began = time.time()
        self.process = self.start()
        return began

    def events(self, after: int = 0) -> list[dict[str, object]]:
        """All events after a number."""
        found: list[dict[str, object]] = []
        while True:
            last = int(str(found[-1]["number"])) if found else after
            page = self.client.get("/v1/events", {"after": last})["events"]
            if not isinstance(page, list) or not page:
                return found
            found += page

    def instance(self) -> dict[str, object]:
        return self.client.get(f"/v1/instances/{INSTANCE}")

    def wait_for_state(self, *states: str, limit_seconds: float = READY_SECONDS) -> str:
        """The state, once it is one of those. Raises TimeoutError."""
        deadline = time.monotonic() + limit_seconds
        state = ""
        while time.monotonic() < deadline:
            with contextlib.suppress(DaemonUnreachable, ApiError):
                state = str(self.instance()["state"])
                if state in states:
                    return state
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise TimeoutError(f"the instance is {state or 'unreachable'}, not {' or '.join(states)}")

    def wait_for_all_ready(self) -> None:
        """Raises TimeoutError."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(DaemonUnreachable):
                listed = self.client.get("/v1/status")["instances"]
                if isinstance(listed, list) and all(one["state"] == "ready" for one in listed):
                    return
            time.sleep(0.1)
        raise TimeoutError("not all instances are ready")

    def stop(self) -> None:
        """SIGTERM stops the engine with it."""
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            self.process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
                return


@contextlib.contextmanager
def running(scene: Scene) -> Iterator[Warden]:
    """A daemon with one instance; stopped at the end, its log shown when something went wrong."""
    scene.directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = scene.directory / "config.toml"
    config.write_text(_settings(scene, port))
    log_path = scene.directory / "daemon.log"

    def start() -> subprocess.Popen[bytes]:
        with log_path.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "vllm_warden.daemon.main", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | scene.daemon_environment,
                start_new_session=True,
            )

    warden = Warden(start(), Client(str(scene.directory / "s")), port, start)
    try:
        yield warden
    except BaseException:
        tail = log_path.read_text(errors="replace").splitlines()[-15:]
        print("\n".join(["the daemon's last lines:", *tail]), file=sys.stderr)
        raise
    finally:
        warden.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _settings(scene: Scene, port: int) -> str:
    """JSON's strings, numbers and lists are TOML's too."""
    tables: dict[str, Mapping[str, object]] = {
        "daemon": {
            "socket": str(scene.directory / "s"),
            "state_directory": str(scene.directory / "state"),
            "log_backend": scene.log_backend,
        },
    }
    for number in range(scene.instances):
        name = f"instance.{INSTANCE}{number or ''}"
        tables[name] = {
            "model": str(scene.model),
            "gpus": [(gpu + number) % scene.gpus_of_host for gpu in scene.gpus]
            if scene.instances > 1
            else list(scene.gpus),
            "port": free_port() if number else port,
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "command": [str(scene.program), "serve"],
            "autostart": scene.autostart,
        }
        tables[f"{name}.environment"] = scene.environment
        tables[f"{name}.engine"] = scene.engine
        tables[f"{name}.restart"] = scene.restart
    lines = []
    for name, values in tables.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"
