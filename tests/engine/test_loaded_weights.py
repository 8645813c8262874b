"""Real vLLM still loads the bytes that the estimate of weights was judged by."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.engine.conftest import ENGINE, ROOT

FIXTURE = ROOT / "tests" / "core" / "plan" / "memory_model" / "loaded_weights.json"


@pytest.mark.engine
@pytest.mark.timeout(600)
def test_workers_hold_what_the_fixture_says(tmp_path: Path):
    names = ["tied", "odd-vocabulary-tp2"]
    output = tmp_path / "loaded.json"
    python = str(ENGINE.with_name("python"))
    words = [python, "-m", "tests.engine.loaded_weights", str(output), *names]

    subprocess.run(words, cwd=ROOT, env={**os.environ, "TMPDIR": "/tmp"}, check=True)

    fixture = json.loads(FIXTURE.read_text("utf-8"))
    assert json.loads(output.read_text("utf-8")) == {name: fixture[name] for name in names}
