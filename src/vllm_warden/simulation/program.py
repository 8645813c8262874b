"""Writes an executable named ``vllm`` that is the stand-in engine."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPT = """#!{interpreter}
import sys

from vllm_warden.simulation.engine import main

sys.exit(main())
"""


def write_program(directory: Path) -> Path:
    """An executable ``vllm`` for this interpreter and its packages; returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "vllm"
    program.write_text(SCRIPT.format(interpreter=sys.executable))
    program.chmod(0o755)
    return program
