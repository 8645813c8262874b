"""Why our unit is being ended decides whether engines end with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_warden.adapters.systemd.job import unit_goes_on

OTHER = "41 other.service stop running\n"


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A systemctl that lists what stands in a file, and the words it was asked with."""
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/nothing")
    program = tmp_path / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nexec cat {tmp_path}/jobs\n')
    program.chmod(0o755)
    return tmp_path


def goes_on(jobs: Path, listed: str, path: str = "/system.slice/w.service/supervisor") -> bool:
    (jobs / "jobs").write_text(listed)
    (jobs / "cgroup").write_text(f"4:memory:/system.slice/w.service\n0::{path}\n")
    return unit_goes_on(jobs / "cgroup", str(jobs / "systemctl"))


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (OTHER + "42 w.service stop running\n", False),
        (OTHER + "42 w.service restart running\n", True),
        (OTHER, True),
        ("", True),
    ],
)
def test_only_a_stop_job_of_our_own_unit_ends_engines(
    jobs: Path, listed: str, expected: bool
) -> None:
    assert goes_on(jobs, listed) is expected


def test_a_manager_that_cannot_be_asked_ends_no_engine(jobs: Path) -> None:
    (jobs / "systemctl").write_text("#!/bin/sh\nexit 1\n")
    assert goes_on(jobs, "")
    (jobs / "systemctl").unlink()
    assert goes_on(jobs, "")


def test_the_manager_of_a_user_is_asked_for_a_users_unit(jobs: Path) -> None:
    path = "/user.slice/user-7.slice/user@7.service/app.slice/w.service/supervisor"
    assert not goes_on(jobs, "1 w.service stop running\n", path)
    assert "--user" in (jobs / "asked").read_text()


def test_outside_of_a_unit_the_engines_end_too(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not goes_on(jobs, "", "/user.slice/user-7.slice/session-1.scope")
    monkeypatch.delenv("NOTIFY_SOCKET")
    assert not goes_on(jobs, "")
