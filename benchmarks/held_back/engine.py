"""The ``vllm`` of this bench: the stand-in engine's words and processes, hidden values of its own.

Two variables name the truth and the diary in which it notes each attempt for the score.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

from benchmarks.held_back import truth
from benchmarks.held_back.diary import attempts
from benchmarks.held_back.laws import HiddenLaws, write_note
from vllm_warden.simulation import engine, flags

TRUTH = "HELD_BACK_TRUTH"
DIARY = "HELD_BACK_DIARY"
KEPT = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
    "max_model_len",
    "enforce_eager",
    "kv_cache_memory_bytes",
)
SCRIPT = """#!{interpreter}
import sys

sys.path[:0] = [{root!r}, {root!r} + "/src"]
from benchmarks.held_back.engine import main

sys.exit(main())
"""


def main() -> int:
    words = sys.argv[1:]
    if words[:1] != ["serve"] or "--help" in words:
        return engine.main(words)
    diary = Path(os.environ[DIARY])
    launch = len(attempts(diary)) + 1
    write_note(diary, launch=launch, settings={}, words=words)
    given = vars(flags.parse(words))
    settings = {name: given[name] for name in KEPT if given.get(name) is not None}
    write_note(diary, launch=launch, settings=settings)
    hidden = truth.read(Path(os.environ[TRUTH]))
    laws = partial(_laws, hidden, launch, diary)
    return engine.main(words, laws)


def _laws(hidden: truth.Truth, launch: int, diary: Path, rank: int) -> HiddenLaws:
    return HiddenLaws(hidden, rank, launch, diary)


def write_program(directory: Path) -> Path:
    """An executable ``vllm`` that is this module; returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "vllm"
    root = str(Path(__file__).parents[2])
    program.write_text(SCRIPT.format(interpreter=sys.executable, root=root))
    program.chmod(0o755)
    return program
