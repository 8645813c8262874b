"""The failure catalogue against the source of real vLLM."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.engine.conftest import ENGINE

pytestmark = pytest.mark.engine


def test_doctor_finds_every_text_of_the_catalogue_in_seconds() -> None:
    program = Path(sys.executable).parent / "vllm-warden"
    begin = time.monotonic()
    done = subprocess.run(
        [program, "doctor", "--json", "--engine", ENGINE], capture_output=True, check=False
    )
    check, _ = json.loads(done.stdout)["checks"]
    assert (check["state"], check["details"], done.returncode) == ("ok", [], 0)
    assert time.monotonic() - begin < 60
