"""Under the real systemd an engine outlives its daemon, and ends with the service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.systemd.conftest import Container
from tests.systemd.test_service import installed, shown

pytestmark = pytest.mark.systemd

CONFIG = """[instance.chat]
model = "/opt/model"
gpus = []
port = 18000
user = "root"
command = ["/opt/engine/vllm", "serve"]
drain_seconds = 1
environment = { WARDEN_SIMULATED_SPEED = "50" }
"""
PROGRAM = """#!/bin/sh
PYTHONPATH=/opt/vllm-warden/src:/opt/vllm-warden/packages exec python3 -c '
from pathlib import Path
from vllm_warden.simulation.program import write_program
print(write_program(Path("/opt/engine")))
'
"""


@pytest.fixture
def service(container: Container) -> Container:
    container.write("/opt/model/config.json", '{"vocab_size": 32000}')
    container.write("/root/make-engine", PROGRAM)
    container.run("sh", "/root/make-engine")
    installed(container, CONFIG)
    container.run("systemctl", "start", "vllm-warden")
    until(container, lambda one: one["state"] == "ready")
    return container


def instance(container: Container) -> dict[str, Any]:
    answer = container.run("vllm-warden", "status", "--json", status=None)
    try:
        return dict(json.loads(answer)["instances"][0])
    except (ValueError, LookupError):
        return {"state": "no answer", "pids": {"parent": None}, "attempt": None}


def until(container: Container, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + 90
    while not reached(found := instance(container)):
        journal = container.run("journalctl", "-u", "vllm-warden", "--no-pager", "-n", "60")
        assert time.monotonic() < deadline, f"{found}\n{journal}"
        time.sleep(0.2)
    return found


def restarted(container: Container, before: str) -> None:
    container.run(
        "sh",
        "-c",
        f"until [ $(systemctl show vllm-warden -P MainPID) != {before} ] "
        "&& systemctl is-active --quiet vllm-warden; do sleep 0.1; done",
    )


def test_a_killed_daemon_leaves_the_engine_to_the_next_one(service: Container) -> None:
    before, daemon = instance(service), shown(service, "MainPID")
    service.run("kill", "-KILL", daemon)
    restarted(service, daemon)

    after = until(service, lambda one: one["state"] == "ready")
    assert (after["pids"], after["attempt"]) == (before["pids"], 1)

    # the next daemon has the journal stream's writing end too, so it can prove the log's end
    service.run("kill", "-KILL", str(after["pids"]["parent"]))
    until(service, lambda one: one["attempt"] == 2 and one["state"] == "ready")
    listed = json.loads(service.run("vllm-warden", "incidents", "--json"))
    number = listed["incidents"][0]["number"]
    incident = json.loads(service.run("vllm-warden", "incidents", str(number), "--json"))
    assert incident["diagnosis"]["incomplete"] is False


def test_a_restart_leaves_engines_alone_and_a_stop_ends_them(service: Container) -> None:
    before, daemon = instance(service), shown(service, "MainPID")
    service.run("systemctl", "restart", "vllm-warden")
    assert shown(service, "MainPID") != daemon
    after = until(service, lambda one: one["state"] == "ready")
    assert (after["pids"], after["attempt"]) == (before["pids"], 1)

    service.run("systemctl", "stop", "vllm-warden")
    pid = after["pids"]["parent"]
    service.run("sh", "-c", f"test ! -e /proc/{pid}")
    service.run("systemctl", "start", "vllm-warden")
    assert until(service, lambda one: one["state"] == "ready")["attempt"] == 2


def test_an_engine_that_died_with_the_daemon_is_diagnosed(service: Container) -> None:
    before, daemon = instance(service), shown(service, "MainPID")
    engine = " ".join(before["pids"]["engine"])
    service.run("kill", "-KILL", daemon, str(before["pids"]["parent"]), *engine.split())
    restarted(service, daemon)

    until(service, lambda one: one["attempt"] == 2 and one["state"] == "ready")
    listed = json.loads(service.run("vllm-warden", "incidents", "--json"))
    assert len(listed["incidents"]) == 1
