"""The shipped unit starts the daemon under the real systemd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.systemd.conftest import Container

pytestmark = pytest.mark.systemd

UNIT = Path(__file__).parents[2] / "packaging" / "systemd" / "vllm-warden.service"
CONFIG = """[instance.chat]
model = "/opt/model"
gpus = []
port = 18000
autostart = false
user = "root"
"""


def installed(container: Container, config: str = CONFIG) -> None:
    container.write("/etc/systemd/system/vllm-warden.service", UNIT.read_text())
    container.write("/etc/vllm-warden/config.toml", config)
    container.run("systemctl", "daemon-reload")


def shown(container: Container, name: str) -> str:
    answer = container.run("systemctl", "show", "vllm-warden", "--property", name)
    return answer.strip().partition("=")[2]


def test_the_service_is_up_when_the_daemon_says_so_and_answers(container: Container) -> None:
    installed(container)
    container.run("systemctl", "start", "vllm-warden")

    status = json.loads(container.run("vllm-warden", "status", "--json", status=None))
    assert [one["name"] for one in status["instances"]] == ["chat"]
    assert shown(container, "StatusText")
    group = shown(container, "ControlGroup")
    assert (
        "supervisor" in container.run("sh", "-c", f"ls -d /sys/fs/cgroup{group}/*/").splitlines()[0]
    )


def test_a_killed_daemon_is_started_again(container: Container) -> None:
    installed(container)
    container.run("systemctl", "start", "vllm-warden")
    first = shown(container, "MainPID")
    container.run("kill", "-KILL", first)
    # systemd waits RestartSec, then for READY=1
    container.run(
        "sh",
        "-c",
        "until [ $(systemctl show vllm-warden -P NRestarts) = 1 ] "
        "&& systemctl is-active --quiet vllm-warden; do sleep 0.1; done",
    )
    assert shown(container, "MainPID") not in {first, "0"}
    container.run("vllm-warden", "status")


def test_a_mistake_in_the_settings_is_in_the_journal(container: Container) -> None:
    installed(container)
    container.write("/etc/vllm-warden/config.toml", CONFIG + "speed = 3\n")
    container.run("systemctl", "start", "vllm-warden", status=1)
    said = container.run("journalctl", "--unit", "vllm-warden", "--output", "cat")
    assert "speed" in said
