"""The whole demo: real daemon, simulated host, faster than for people."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SPEED = "300"
COMMAND = [sys.executable, "-c", "from vllm_warden.cli.main import main; raise SystemExit(main())"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"TMPDIR": str(tmp_path)}


def run(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, "demo", "--plain", "--speed", SPEED, *words]
    return subprocess.run(
        command,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def left_behind(tmp_path: Path) -> list[str]:
    """Files of the demo, and processes whose command line or environment names its directory."""
    left = [str(entry) for entry in tmp_path.iterdir()]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"{tmp_path}/".encode() in known:
                left.append(known.decode(errors="replace")[:200])
    return left


def test_the_incident_is_survived_and_nothing_is_left(tmp_path: Path) -> None:
    picture = tmp_path.with_suffix(".svg")
    done = run(tmp_path, "--picture", str(picture))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "simulated" in picture.read_text()
    assert "The GPUs are simulated" in done.stdout
    assert re.search(r"gpu_memory_utilization 0\.95 → 0\.9\d+", done.stdout)
    assert "was answered" in done.stdout
    assert left_behind(tmp_path) == []


def test_in_restart_mode_the_instance_ends_held_and_the_demo_says_no(tmp_path: Path) -> None:
    done = run(tmp_path, "--mode", "restart")
    assert done.returncode == 1
    assert "the instance ended held: the restart budget is spent" in done.stdout
    assert left_behind(tmp_path) == []


def test_ctrl_c_clears_everything_away(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "--plain"]
    process = subprocess.Popen(
        command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    for line in process.stdout:
        if b"entered load" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert left_behind(tmp_path) == []
