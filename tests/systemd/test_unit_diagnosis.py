"""``diagnose --unit`` reads any unit's journal under the real systemd."""

from __future__ import annotations

import json

import pytest

from tests.systemd.conftest import Container

pytestmark = pytest.mark.systemd

DEATH = "captured/0.9.2/26-oom-load-tp2-rank1.log"
UNIT = """[Service]
ExecStart=/bin/sh -c 'cat "$(cat /root/log)"; exit 1'
"""


def runs(container: Container, *logs: str) -> None:
    """One invocation of the unit after another, each prints a log and fails."""
    container.write("/etc/systemd/system/engine.service", UNIT)
    container.run("systemctl", "daemon-reload")
    for log in logs:
        container.write("/root/log", f"/opt/corpus/{log}")
        container.run("systemctl", "start", "--wait", "engine", status=1)
    container.run("journalctl", "--sync")


def test_the_newest_invocation_that_ended_is_diagnosed(container: Container) -> None:
    runs(container, "captured/0.9.2/05-unknown-flag.log", DEATH)
    container.write(
        "/etc/systemd/system/engine.service",
        "[Service]\nExecStart=/bin/sh -c 'echo Starting to load model x; exec sleep 600'\n",
    )
    container.run("systemctl", "daemon-reload")
    container.run("systemctl", "start", "engine")

    found = json.loads(
        container.run("vllm-warden", "diagnose", "--unit", "engine.service", "--json")
    )
    assert (found["failure"], found["phase"]) == ("gpu_out_of_memory", "load")
    assert found["ranks"] == [1]

    older = container.run(
        "vllm-warden", "diagnose", "--unit", "engine", "--invocation", "-2", "--json"
    )
    assert json.loads(older)["failure"] == "configuration_invalid"

    running = container.run(
        "vllm-warden", "diagnose", "--unit", "engine", "--invocation", "0", "--json", status=1
    )
    assert json.loads(running)["failure"] == "none"


def test_a_unit_that_never_ran_is_one_clear_error(container: Container) -> None:
    container.run("vllm-warden", "diagnose", "--unit", "nothing.service", status=2)
