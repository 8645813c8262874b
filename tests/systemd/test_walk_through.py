"""docs/how-to/restart-the-daemon.md, command by command, with real vLLM under real systemd."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import ENGINE
from tests.engine.tiny_model import main as make_model
from tests.systemd.conftest import ROOT, Container
from tests.systemd.test_service import UNIT, shown

pytestmark = [pytest.mark.engine, pytest.mark.systemd, pytest.mark.timeout(900)]

PAGE = (ROOT / "docs" / "how-to" / "restart-the-daemon.md").read_text()
PROGRAM = """#!/bin/sh
PYTHONPATH=/opt/vllm/packages exec /usr/bin/python3 -m vllm.entrypoints.cli.main "$@"
"""


def commands() -> list[str]:
    """What the page tells people to type, one entry for each block."""
    return re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def host(container: Container) -> Container:
    """With vLLM in /opt/vllm, as the page asks for; Debian's own Python runs it."""
    container.write("/opt/vllm/bin/vllm", PROGRAM)
    container.run("chmod", "755", "/opt/vllm/bin/vllm")
    container.write("/etc/systemd/system/vllm-warden.service", UNIT.read_text())
    (settings,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    container.write("/etc/vllm-warden/config.toml", settings)
    container.run("systemctl", "daemon-reload")
    return container


@pytest.fixture
def binds(tmp_path: Path) -> list[str]:
    """The engine's packages and a model, bound into the container."""
    (packages,) = ENGINE.parent.parent.glob("lib/python3.*/site-packages")
    assert packages.parent.name == "python3.11", "Debian 12 has Python 3.11: use that for .venv"
    make_model([str(tmp_path / "chat"), "--weights", "--max-position", "4096"])
    tmp_path.chmod(0o755)
    return [f"{packages}:/opt/vllm/packages", f"{tmp_path / 'chat'}:/srv/models/chat"]


def status(host: Container) -> dict[str, Any]:
    answer = host.run("vllm-warden", "status", "--json", status=None)
    try:
        return dict(json.loads(answer)["instances"][0])
    except (ValueError, LookupError):
        return {"state": "no answer"}


def test_the_page(host: Container) -> None:
    prepare, start, ask, kill, look, stop = commands()
    host.run("sh", "-ec", prepare)
    told = host.run("sh", "-c", f"{{ {start} }} || vllm-warden why", seconds=600)
    before = status(host)
    assert before["state"] == "ready", told
    daemon = shown(host, "MainPID")

    answers: list[str] = []

    def answer() -> None:
        answers.append(host.run("sh", "-ec", ask, seconds=300))

    asking = threading.Thread(target=answer)
    asking.start()
    time.sleep(3)
    assert asking.is_alive(), answers
    host.run("sh", "-ec", kill)
    assert asking.is_alive(), answers
    deadline = time.monotonic() + 90
    while status(host)["state"] != "ready":
        assert time.monotonic() < deadline, host.run("journalctl", "-u", "vllm-warden", "-n", "80")
        time.sleep(0.2)
    asking.join()

    assert '"finish_reason":"length"' in answers[0]
    assert answers[0].rstrip().endswith("data: [DONE]")
    after = status(host)
    assert (after["attempt"], after["pids"]) == (before["attempt"], before["pids"])
    told = host.run("sh", "-ec", look)
    assert shown(host, "MainPID") != daemon
    assert "attempt 1 is process" in told
    assert "attempt 2" not in told
    host.run("sh", "-ec", stop, seconds=120)
    pids = [before["pids"]["parent"], *before["pids"]["engine"]]
    host.run("sh", "-c", "".join(f"test ! -e /proc/{pid} || exit 1; " for pid in pids))
