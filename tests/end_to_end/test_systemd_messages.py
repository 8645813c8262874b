"""What systemd is told: READY once it answers, STATUS, WATCHDOG while the loop lives, STOPPING."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wardens import Warden

pytestmark = pytest.mark.slow


class Ear:
    """Stands in for systemd's notification socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(0.05)
        self.heard: list[str] = []

    def hears(self, wanted: str) -> bool:
        with contextlib.suppress(TimeoutError):
            while True:
                self.heard.append(self.socket.recv(4096).decode())
        return any(message.startswith(wanted) for message in self.heard)


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[Ear]:
    made = Ear(tmp_path / "n")
    yield made
    made.socket.close()


def test_systemd_hears_of_readiness_status_watchdog_and_stop(
    warden: Warden, model: Path, instance: Callable[..., str], ear: Ear, tmp_path: Path
) -> None:
    warden.environment |= {"NOTIFY_SOCKET": str(tmp_path / "n"), "WATCHDOG_USEC": "1000000"}
    warden.write_config(instance("x", model))
    warden.start()

    warden.until(lambda: ear.hears("READY=1"), 10, "READY")
    warden.until(lambda: ear.hears("WATCHDOG=1"), 10, "WATCHDOG")
    warden.until(lambda: ear.hears("STATUS=1 of 1 ready"), 30, "STATUS")
    environment = Path(f"/proc/{warden.status('x')['pids']['parent']}/environ").read_bytes()
    assert b"NOTIFY_SOCKET" not in environment
    assert b"WATCHDOG" not in environment

    assert warden.stop() == 0
    assert ear.hears("STOPPING=1")
    assert ear.heard.index("READY=1") < ear.heard.index("STOPPING=1")
