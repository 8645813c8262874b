"""Engines live in groups of their own, and leave nothing behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.conftest import cgroup2_is_writable, cgroup_of
from tests.wardens import Warden, living

pytestmark = pytest.mark.slow


def test_every_attempt_has_a_cgroup_of_its_own_where_cgroup2_is_writable(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    assert cgroup2_is_writable(), "this machine cannot show it: no writable cgroup2"
    warden.write_config(instance("x", model))
    warden.start()
    status = warden.until_state("x", "ready", seconds=20)

    path = cgroup_of(status["pids"]["parent"])
    assert "/instance-x/attempt-1-" in path
    assert {cgroup_of(int(pid)) for pid in status["pids"]["engine"]} <= {path}
    assert warden.process is not None
    assert cgroup_of(warden.process.pid) not in (path, path.rpartition("/")[0])
    assert not warden.client.get("/v1/status")["daemon"]["conditions"]  # type: ignore[index]


def test_no_controller_is_ever_enabled_below_the_warden(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("x", model))
    warden.start()
    status = warden.until_state("x", "ready", seconds=20)
    mount = next(
        line.split()[4]
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if " - cgroup2 " in line
    )

    for directory in (
        Path(mount + cgroup_of(status["pids"]["parent"])),
        *Path(mount + cgroup_of(status["pids"]["parent"])).parents[:2],
    ):
        assert (directory / "cgroup.subtree_control").read_text().split() == []


def test_a_stop_leaves_no_process_no_group_and_no_temporary_directory(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("x", model))
    warden.start()
    status = warden.until_state("x", "ready", seconds=20)
    pids = [status["pids"]["parent"], *(int(pid) for pid in status["pids"]["engine"])]
    tmpdir = tmpdir_of(status["pids"]["parent"])
    assert tmpdir.is_dir()

    assert warden.command("stop", "x").returncode == 0

    assert living(pids) == []
    warden.until(lambda: not tmpdir.exists(), 5, "TMPDIR is removed")


def test_a_long_state_directory_gets_a_short_temporary_one_that_goes_too(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    long = warden.directory / ("x" * 60)
    warden.write_config(instance("x", model))
    warden.config.write_text(
        warden.config.read_text().replace(f"{warden.directory}/state", f"{long}/state")
    )
    warden.start()
    status = warden.until_state("x", "ready", seconds=20)
    tmpdir = tmpdir_of(status["pids"]["parent"])
    assert len(str(tmpdir)) <= 70
    assert tmpdir.is_dir()

    assert warden.command("stop", "x").returncode == 0

    warden.until(lambda: not tmpdir.exists(), 5, "TMPDIR is removed")


def test_an_engine_that_ignores_every_signal_is_killed_with_its_children(
    warden: Warden, model: Path, instance: Callable[..., str], tmp_path: Path
) -> None:
    program = tmp_path / "stubborn" / "vllm"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\ntrap '' TERM INT\nsetsid sleep 1000 &\nwhile :; do sleep 1; done\n"
    )
    program.chmod(0o755)
    warden.write_config(instance("x", model, command=f'["{program}", "serve"]'))
    warden.start()
    warden.until(lambda: warden.status("x")["pids"]["parent"] is not None, 10, "it runs")
    parent = warden.status("x")["pids"]["parent"]
    warden.until(lambda: "/instance-x/" in cgroup_of(parent), 10, "the shell is in its group")
    group = cgroup_of(parent)
    warden.until(lambda: len(members(group)) >= 3, 10, "shell, orphan and child are there")
    everyone = members(group)

    assert warden.command("stop", "x", "--now").returncode == 0

    assert living(everyone) == []


def members(group: str) -> list[int]:
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and cgroup_of_or_none(int(entry.name)) == group
    ]


def tmpdir_of(pid: int) -> Path:
    variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return Path(next(one for one in variables if one.startswith("TMPDIR=")).partition("=")[2])


def cgroup_of_or_none(pid: int) -> str | None:
    try:
        return cgroup_of(pid)
    except OSError:
        return None


def test_a_crash_with_exit_status_zero_is_relaunched(
    warden: Warden, model: Path, instance: Callable[..., str]
) -> None:
    warden.write_config(instance("x", model))
    warden.start()
    status = warden.until_state("x", "ready", seconds=20)

    os.kill(status["pids"]["parent"], signal.SIGTERM)

    warden.until(lambda: bool(warden.incidents("x")), 10, "an incident is opened")
    warden.until_state("x", "ready", seconds=20)
    (incident,) = warden.incidents("x")
    assert incident["exit_status"] == 0
    assert incident["diagnosis"]["failure"] == "killed_by_signal"


def test_secrets_reach_the_engine_and_nothing_else(
    warden: Warden, model: Path, instance: Callable[..., str], tmp_path: Path
) -> None:
    secret = "s3cret-value-1234567890"
    program = tmp_path / "talkative" / "vllm"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "VLLM_API_KEY=$VLLM_API_KEY"\nexit 1\n')
    program.chmod(0o755)
    secrets = tmp_path / "env"
    secrets.write_text(f"VLLM_API_KEY={secret}\n")
    secrets.chmod(0o600)
    warden.write_config(
        instance(
            "x",
            model,
            command=f'["{program}", "serve"]',
            environment_file=f'"{secrets}"',
        )
    )
    warden.start()
    warden.until(lambda: bool(warden.incidents("x")), 10, "it dies")

    logs = warden.command("logs", "x").stdout
    assert "VLLM_API_KEY=" in logs
    told = [
        logs,
        warden.command("why", "x").stdout,
        str(warden.incidents("x")),
        str(warden.client.get("/v1/instances/x")),
        warden.output.read_text(),
        (warden.directory / "state" / "state.json").read_text(),
    ]
    assert not [text for text in told if secret in text]
