"""Bad input and bad luck: one clear message each, and nothing lost."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.wardens import Warden, complete, free_port
from vllm_warden.adapters.process.start_lock import StartLock

pytestmark = pytest.mark.slow


def run_daemon(config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vllm_warden.daemon.main", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_missing_model_directory_is_waited_for_and_named_and_others_run(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    absent = model.parent / "absent"
    warden.write_config(instance("lost", absent), instance("fine", model))
    warden.start()

    warden.until_state("fine", "ready", seconds=20)
    warden.until_reason("lost", "waiting", str(absent), seconds=10)

    absent.mkdir()
    (absent / "config.json").write_text("{}")
    warden.until_state("lost", "ready", seconds=20)


def test_a_missing_program_fails_the_instance_and_names_it(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("x", model, command='["/no/such/vllm", "serve"]'))
    warden.start()

    status = warden.until_state("x", "failed", seconds=10)
    assert "/no/such/vllm" in status["reason"]
    assert status["attempt"] == 0


def test_a_taken_port_is_waited_for_with_its_holder_named(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        warden.write_config(instance("x", model, port=port))
        warden.start()
        me = f"pid {os.getpid()}"
        warden.until_reason("x", "waiting", f"port {port}", me, seconds=20)

    warden.until_state("x", "ready", seconds=20)
    assert complete(port, str(model))["choices"]


def test_a_gpu_that_does_not_exist_is_named_with_those_that_do(
    gpu_warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    gpu_warden.write_config(instance("x", model, gpus="[7]"))
    gpu_warden.start()

    missing = "GPU 7 does not exist here (there are: 0, 1)"
    gpu_warden.until_reason("x", "waiting", missing, seconds=20)


def test_a_start_of_another_warden_on_the_same_gpu_is_waited_for(
    gpu_warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    gpu_warden.write_config(instance("x", model, gpus="[1]", autostart="false"))
    gpu_warden.start()

    def gpus() -> Any:
        document: Any = gpu_warden.client.get("/v1/status")
        return document["gpus"]

    gpu_warden.until(gpus, 10, "the GPUs have been read")
    others = StartLock([gpus()[1]["uuid"]])
    gpu_warden.client.post("/v1/instances/x/start")
    gpu_warden.until_reason("x", "waiting", "other starts", f"pid {os.getpid()}", seconds=20)

    others.release()

    gpu_warden.until_state("x", "ready", seconds=30)


def test_without_nvml_cpu_instances_run_and_gpu_instances_wait_named(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("cpu", model), instance("gpu", model, gpus="[0]"))
    warden.start()

    warden.until_state("cpu", "ready", seconds=20)
    warden.until_reason("gpu", "waiting", "the GPUs cannot be read", seconds=20)
    assert "CPU engine" in str(warden.client.get("/v1/instances/cpu")["explanation"])


def test_a_second_daemon_on_the_same_state_is_refused_with_the_pid_of_the_first(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("x", model, autostart="false"))
    warden.start()
    assert warden.process is not None

    second = run_daemon(warden.config)

    assert second.returncode == 4
    assert f"pid {warden.process.pid}" in second.stderr
    assert warden.status("x")["state"] == "stopped"


def test_a_live_socket_is_refused_and_a_stale_one_taken_over(
    warden: Warden, model: Path, instance: Callable[..., str], tmp_path: Path
) -> None:
    warden.write_config(instance("x", model, autostart="false"))
    warden.start()
    other = tmp_path / "other.toml"
    other.write_text(warden.config.read_text().replace("/state", "/state2"))
    assert run_daemon(other).returncode == 4

    assert warden.process is not None
    warden.process.kill()
    warden.process.wait()
    assert warden.socket.exists()
    warden.start()
    assert warden.status("x")["state"] == "stopped"


def test_an_unwritable_state_directory_is_refused_naming_path_and_user(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        f'[daemon]\nsocket = "{tmp_path}/s"\nstate_directory = "/proc/warden"\n'
        'log_backend = "file"\n'
    )

    ran = run_daemon(config)

    assert ran.returncode == 2
    assert "/proc/warden" in ran.stderr
    assert "user" in ran.stderr


def test_a_corrupt_database_is_set_aside_named_and_not_deleted(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    state = warden.directory / "state"
    state.mkdir()
    (state / "history.db").write_bytes(b"this is no database" * 1000)
    warden.write_config(instance("x", model))
    warden.start()

    warden.until_state("x", "ready", seconds=20)
    conditions = str(warden.client.get("/v1/status")["daemon"])
    (aside,) = state.glob("history.db.corrupt-*")
    assert aside.read_bytes().startswith(b"this is no database")
    assert aside.name in conditions


def test_a_configuration_with_five_errors_is_refused_with_all_five(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        '[daemon]\nlog_backend = "tape"\n'
        '[instance.a]\nmodel = "/m"\nport = 99999\ncommand = ["docker", "run", "vllm"]\n'
        '[instance.b]\nmodel = 7\ngpus = []\ncolour = "red"\n'
    )

    ran = run_daemon(config)

    assert ran.returncode == 2
    for key in (
        "daemon.log_backend",
        "instance.a.gpus",
        "instance.a.port",
        "instance.a.command",
        "instance.b.model",
        "instance.b.colour",
    ):
        assert key in ran.stderr, key
    assert ran.stdout == ""


def test_history_wanted_state_and_numbers_survive_a_restart_of_the_daemon(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("x", model), instance("y", model))
    warden.start()
    warden.until_state("x", "ready", seconds=20)
    warden.until_state("y", "ready", seconds=20)
    assert warden.command("stop", "y").returncode == 0
    last = max(event["number"] for event in warden.events("x"))
    assert warden.stop() == 0

    warden.start()

    warden.until_state("x", "ready", seconds=20)
    assert warden.status("x")["attempt"] == 2
    assert warden.status("y")["state"] == "stopped"
    assert max(event["number"] for event in warden.events("x")) > last


def test_the_daemon_runs_on_when_its_state_directory_becomes_unwritable(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    port = free_port()
    warden.write_config(instance("x", model, port=port))
    warden.start()
    warden.until_state("x", "ready", seconds=20)
    state = warden.directory / "state"
    with contextlib.closing(sqlite3.connect(state / "history.db")) as database:
        database.execute("drop table events")
        database.commit()

    assert warden.command("restart", "x").returncode == 0
    assert warden.status("x")["state"] == "ready"
    assert complete(port, str(model))["choices"]
