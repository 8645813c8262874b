"""A container in which the real systemd and journald run, with the product bound into it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RIG = ROOT / "tests" / "rigs" / "container.sh"
BUILT = ROOT / "build" / "systemd"
CORPUS = ROOT / "tests" / "corpus"


class Container:
    """Booted from a fresh overlay; nothing inside outlives it."""

    def __init__(self, name: str, state: Path) -> None:
        self.name = name
        self._environment = {**os.environ, "RIG_STATE": str(state)}

    def rig(self, *words: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [RIG, *words],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def up(self, *binds: str) -> None:
        """``binds`` are further HOST:INSIDE pairs, read-only."""
        booted = self.rig(
            "up",
            self.name,
            str(BUILT / "root"),
            f"--bind-ro={ROOT / 'src'}:/opt/vllm-warden/src",
            f"--bind-ro={BUILT / 'packages'}:/opt/vllm-warden/packages",
            f"--bind-ro={CORPUS}:/opt/corpus",
            *(f"--bind-ro={bind}" for bind in binds),
        )
        assert booted.returncode == 0, booted.stdout + booted.stderr

    def run(self, *words: str, status: int | None = 0, seconds: float = 60) -> str:
        """Run a command inside; its output. ``status`` None accepts any exit status."""
        done = self.rig("exec", self.name, *words, seconds=seconds)
        assert status is None or done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout

    def write(self, path: str, text: str) -> None:
        script = f"mkdir -p $(dirname {path}) && cat >{path}"
        subprocess.run(
            [RIG, "exec", self.name, "sh", "-c", script],
            env=self._environment,
            input=text,
            text=True,
            check=True,
            timeout=30,
        )


@pytest.fixture
def binds() -> list[str]:
    """What a test module wants bound in beside the product."""
    return []


@pytest.fixture
def container(
    request: pytest.FixtureRequest, tmp_path: Path, binds: list[str]
) -> Iterator[Container]:
    made = Container(f"warden-{os.getpid()}-{abs(hash(request.node.name)) % 10_000}", tmp_path)
    made.up(*binds)
    yield made
    made.rig("down", made.name)
