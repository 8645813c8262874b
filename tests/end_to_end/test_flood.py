"""An engine that floods its log takes neither the daemon's attention nor its memory."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.wardens import Warden, free_port, running

pytestmark = pytest.mark.slow

FLOOD = """#!/usr/bin/env python3
import sys
import time
if "--version" in sys.argv:
    print("0.13.0")
    sys.exit(0)
number = 0
ends = time.monotonic() + 60  # also where nobody ends it
while time.monotonic() < ends:
    lines = []
    for number in range(number, number + 5000):
        tag = f"(Worker_TP{number} pid={number})"
        lines.append(f"{tag} ERROR 11-29 16:20:01 [core.py:857] Traceback (most recent call last):")
    sys.stdout.write("\\n".join(lines) + "\\n")
    sys.stdout.flush()
"""
MEMORY_MAX_BYTES = 300 << 20
ANSWERS_WITHIN_SECONDS = 2.0
"""A second where nothing else runs; the flood and the tests share the cores here."""


def memory_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * 4096


def test_a_flooding_engine_leaves_the_daemon_answering_and_stopping(
    warden: Warden, model: Path, tmp_path: Path
) -> None:
    program = tmp_path / "vllm"
    program.write_text(FLOOD)
    program.chmod(0o755)
    warden.write_config(
        f'[instance.x]\nmodel = "{model}"\ngpus = []\nport = {free_port()}\n'
        f'command = ["{program}", "serve"]\ndrain_seconds = 1.0\n'
    )
    with running(warden):
        assert warden.process is not None
        slowest = memory = 0.0
        until = time.monotonic() + 8
        while time.monotonic() < until:
            asked = time.monotonic()
            warden.client.get("/v1/status")
            slowest = max(slowest, time.monotonic() - asked)
            memory = max(memory, memory_bytes(warden.process.pid))
            time.sleep(0.1)
        assert slowest < ANSWERS_WITHIN_SECONDS
        assert memory < MEMORY_MAX_BYTES
        asked = time.monotonic()
        assert warden.stop() == 0
        assert time.monotonic() - asked < 20
