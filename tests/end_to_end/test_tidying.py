"""What an engine leaves behind, or what others ask meanwhile, does not hold up its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wardens import Warden

pytestmark = pytest.mark.slow

DEEP = """#!{python}
import os, sys, time
os.chdir(os.environ["TMPDIR"])
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
print("deep", flush=True)
time.sleep(1000)
"""


def test_a_tree_deeper_than_any_path_is_removed_at_a_stop(
    warden: Warden,
    model: Path,
    instance: Callable[..., str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    program = tmp_path / "deep" / "vllm"
    program.parent.mkdir()
    program.write_text(DEEP.format(python=sys.executable))
    program.chmod(0o755)
    warden.write_config(instance("x", model, command=f'["{program}", "serve"]'))
    state = warden.directory / "state"
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", str(state)], check=True))
    warden.start()
    warden.until(lambda: "deep" in warden.command("logs", "x").stdout, 20, "it is deep")

    assert warden.command("stop", "x", "--now").returncode == 0

    assert warden.status("x")["state"] == "stopped"
    warden.until(lambda: not list((state / "t").iterdir()), 5, "it is removed")


def test_shared_memory_of_a_killed_engine_goes_and_no_other(
    warden: Warden, model: Path, instance: Callable[..., str], tmp_path: Path
) -> None:
    mark = f"psm_test{os.getpid()}_"
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nexec 9<>"/dev/shm/{mark}$$"\nexec "$@"\n')
    wrapper.chmod(0o755)
    others = Path("/dev/shm") / f"{mark}other"
    others.touch()

    def files() -> set[str]:
        return {path.name for path in Path("/dev/shm").glob(f"{mark}*")}

    try:
        program = tmp_path / "bin" / "vllm"
        warden.write_config(instance("x", model, command=f'["{wrapper}", "{program}", "serve"]'))
        warden.start()
        first = warden.until_state("x", "ready", seconds=20)["pids"]["parent"]
        assert files() == {f"{mark}{first}", others.name}
        os.kill(first, signal.SIGKILL)
        warden.until(lambda: warden.status("x")["attempt"] == 2, 20, "it is relaunched")
        second = warden.until_state("x", "ready", seconds=20)["pids"]["parent"]

        warden.until(lambda: f"{mark}{first}" not in files(), 10, "what it left is removed")
        assert files() == {f"{mark}{second}", others.name}
        assert warden.stop() == 0
        assert files() == {others.name}
    finally:
        for path in Path("/dev/shm").glob(f"{mark}*"):
            path.unlink()
