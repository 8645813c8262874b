"""Sets the scene of the demo and clears it away: simulated host, configuration, real daemon."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from vllm_warden.api.client import ApiError, Client, DaemonUnreachable
from vllm_warden.cli.demo.state import listed, part
from vllm_warden.simulation.build import driver_environment
from vllm_warden.simulation.host import ENVIRONMENT, is_alive, make_host
from vllm_warden.simulation.models import write_minimax_m25
from vllm_warden.simulation.plan import SPEED
from vllm_warden.simulation.program import write_program

INSTANCE = "minimax-m25"
LINGER_SECONDS = 7.0
"""How long the simulated driver takes to give back memory; real ones take longer for 95 GB."""

STOP_SECONDS = 15.0

CONFIG = """\
[daemon]
socket = {socket}
state_directory = {state}
log_backend = "file"

[instance.{name}]
model = {model}
gpus = [0, 1, 2, 3]
port = {port}
user = {user}
command = [{program}, "serve"]
environment = {{ {gpus_name} = {gpus}, {speed_name} = "{speed}" }}

[instance.{name}.engine]
tensor_parallel_size = 4
max_model_len = 131072
gpu_memory_utilization = 0.95
trust_remote_code = true

[instance.{name}.adapt]
mode = "{mode}"
max_num_seqs = {{ min = 128 }}
gpu_memory_utilization = {{ min = 0.85 }}
"""


class CannotStage(Exception):  # noqa: N818 - reads as the sentence it starts
    """The demo could not begin; the message says why."""


@dataclass(slots=True)
class Stage:
    """Everything that the demo made; ``clear`` removes it, whatever state it is in."""

    directory: Path
    port: int
    mode: str
    speed: float
    daemon: subprocess.Popen[bytes] | None = None
    _seen: set[int] = field(default_factory=set)

    @property
    def client(self) -> Client:
        return Client(str(self.directory / "api.sock"))

    @property
    def daemon_log(self) -> Path:
        return self.directory / "daemon.log"

    def start(self) -> None:
        """Write the files and start the daemon. Raises CannotBuild, CannotStage."""
        gpus = make_host(self.directory / "gpus", linger_seconds=LINGER_SECONDS)
        config = self._write_config(gpus)
        environment = os.environ | driver_environment(gpus)
        command = [sys.executable, "-m", "vllm_warden.daemon.main", "--config", str(config)]
        with self.daemon_log.open("wb") as log:
            # A session of its own: Ctrl-C reaches the demo, which stops things in order.
            self.daemon = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def wait_for_daemon(self, limit_seconds: float = 20) -> None:
        """Until it answers. Raises CannotStage with the end of its log."""
        deadline = time.monotonic() + limit_seconds
        while True:
            try:
                self.client.get("/v1/status")
            except (DaemonUnreachable, ApiError) as error:
                exited = self.daemon is not None and self.daemon.poll() is not None
                if exited or time.monotonic() > deadline:
                    raise CannotStage(self.why_no_daemon(str(error))) from error
                time.sleep(0.05)
            else:
                return

    def why_no_daemon(self, reason: str) -> str:
        """With the last lines that the daemon wrote."""
        with contextlib.suppress(OSError):
            tail = self.daemon_log.read_text(errors="replace").strip().splitlines()[-8:]
            reason = "\n  ".join([reason, *tail])
        return f"cannot run the demo: the daemon does not answer: {reason}"

    def remember(self, pids: Iterable[int]) -> None:
        """Engine processes that the daemon reported, to make sure of their end."""
        self._seen.update(pids)

    def clear(self, *, keep: bool = False) -> None:
        """Stop the instance, then the daemon, then what is left; remove the files."""
        self._stop_instance()
        self._stop_daemon()
        self._end_leftovers()
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _write_config(self, gpus: Path) -> Path:
        config = self.directory / "config.toml"
        text = CONFIG.format(
            name=INSTANCE,
            socket=_toml(self.directory / "api.sock"),
            state=_toml(self.directory / "state"),
            model=_toml(write_minimax_m25(self.directory / "minimax-m2.5")),
            program=_toml(write_program(self.directory / "bin")),
            port=self.port,
            user=_toml(pwd.getpwuid(os.geteuid()).pw_name),
            gpus_name=ENVIRONMENT,
            gpus=_toml(gpus),
            speed_name=SPEED,
            speed=f"{self.speed:g}",
            mode=self.mode,
        )
        config.write_text(text)
        (self.directory / "state").mkdir(exist_ok=True)
        return config

    def _stop_instance(self) -> None:
        path = f"/v1/instances/{INSTANCE}"
        with contextlib.suppress(DaemonUnreachable, ApiError):
            self._note_pids()
            self.client.post(f"{path}/stop", {"now": True})
            deadline = time.monotonic() + STOP_SECONDS
            while time.monotonic() < deadline:
                if self.client.get(path).get("state") in {"stopped", "held", "failed"}:
                    return
                time.sleep(0.1)

    def _note_pids(self) -> None:
        for instance in listed(self.client.get("/v1/status"), "instances"):
            pids = part(instance, "pids")
            self.remember(int(pid) for pid in part(pids, "engine"))
            if isinstance(parent := pids.get("parent"), int):
                self.remember([parent])

    def _stop_daemon(self) -> None:
        if self.daemon is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                self.daemon.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.daemon.wait(STOP_SECONDS)
                return

    def _end_leftovers(self) -> None:
        """Only processes of the demo itself: reported ones, and holders of its private GPUs."""
        holders = (self.directory / "gpus").glob("gpu*/procs/*")
        self.remember(int(entry.name) for entry in holders if entry.name.isdigit())
        for pid in self._seen:
            if is_alive(pid) and self._is_ours(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _is_ours(self, pid: int) -> bool:
        """A pid may have been given to somebody else meanwhile."""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return command.startswith(b"VLLM::") or str(self.directory).encode() in command


def make_stage(mode: str, speed: float) -> Stage:
    """A private directory (short: a socket path ends at 107 bytes) and a free port."""
    directory = Path(tempfile.mkdtemp(prefix="vllm-warden-demo-"))
    return Stage(directory, free_port(), mode, speed)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _toml(text: object) -> str:
    """A TOML basic string; JSON's escapes are among TOML's."""
    return json.dumps(str(text))
