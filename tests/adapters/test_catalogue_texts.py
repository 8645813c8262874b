"""The child that reads an installed vLLM's source, on small trees."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.fakes.installed_engine import install
from vllm_warden.adapters.engine_probe.catalogue_texts import Lacking, lacking
from vllm_warden.adapters.engine_probe.engine import ProbeFailed

SOURCE = """
raise RuntimeError("never to be imported")
# Engine core is only mentioned in a comment
class EngineDeadError(Exception): ...

def capture_model(self):
    logger.info("a text in one piece")
    logger.info(
        "a text that the source "
        f"breaks over {count} lines"
    )
    logger.info("Worker proc %s died", name)
    logger.info(f"{device} KV cache size: {tokens}")
    logger.info('the model\\'s end')
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A program named vllm whose interpreter finds the package beside it."""
    return install(tmp_path, "0.15.1", SOURCE, core="def init_device(self): ...")


HELD = (
    "a text in one piece",
    "a text that the source breaks over",
    "Worker proc VllmWorker-",
    "GPU KV cache size:",
    "the model's end",
    "EngineDeadError",
)


def test_texts_are_found_as_the_engine_prints_them(engine: Path) -> None:
    assert lacking([str(engine)], HELD, ()).absent == frozenset()


def test_what_is_not_printed_is_named(engine: Path) -> None:
    found = lacking(
        [str(engine)],
        (
            "a text in two pieces",
            "Engine core is only mentioned",
            "Worker process",
            "Worker proc has met an end that nobody prints",
        ),
        ("init_device", "capture_model", "init"),
    )
    assert found.absent == {
        "a text in two pieces",
        "Engine core is only mentioned",
        "Worker process",
        "Worker proc has met an end that nobody prints",
        "init",
    }
    assert found == Lacking("0.15.1", str(engine.parent / "packages/vllm"), found.absent)


def test_a_program_without_vllm_is_said_so(tmp_path: Path) -> None:
    program = tmp_path / "vllm"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    with pytest.raises(ProbeFailed, match="has no package vllm"):
        lacking([str(program)], (), ())


def test_no_program_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ProbeFailed, match="no program"):
        lacking([str(tmp_path / "vllm")], (), ())
