"""Output that cannot be written is told as that, and whoever stops reading is not complained at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.api import documents
from tests.api.fake_service import FakeService

LOG = next(iter(sorted(Path("tests/samples").glob("*/composed.log"))))
NAME = "minimax-m25"
PROGRAM = "import sys; from vllm_warden.cli.main import main; sys.exit(main())"
FULL = Path("/dev/full")

ALONE = (
    ("--help",),
    ("--version",),
    ("explain",),
    ("explain", "--json"),
    ("diagnose", str(LOG)),
    ("diagnose", "--json", "--all", str(LOG), str(LOG)),
    ("check-config", "etc/config.toml"),
    ("check-config", "etc/config.toml", "--json"),
    ("doctor", "--json"),
)
ASKING = (
    ("status",),
    ("status", "--json"),
    ("why", NAME),
    ("start", NAME),
    ("restart", NAME, "--no-wait", "--json"),
    ("accept", NAME),
)


def ended(words: tuple[str, ...], output: int, errors: int = subprocess.PIPE) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        timeout=60,
        check=False,
    )
    return done.returncode, (done.stderr or b"").decode()


def told_as_output(code: int, err: str) -> None:
    assert code == 2, err
    assert err.splitlines()[-1] == "vllm-warden: cannot write the output: no space left on device"
    assert "bug" not in err
    assert "cannot read" not in err
    assert "Exception" not in err


@pytest.mark.parametrize("words", ALONE)
def test_a_full_device_is_an_output_problem(words: tuple[str, ...]) -> None:
    with FULL.open("wb") as full:
        told_as_output(*ended(words, full.fileno()))


@pytest.mark.parametrize("words", ASKING)
def test_a_full_device_is_an_output_problem_beside_a_daemon_too(start_server, words) -> None:
    served = start_server(
        lambda: FakeService(documents.status(documents.instance(degraded=True, state="ready")))
    )
    with FULL.open("wb") as full:
        told_as_output(*ended((*words, "--socket", served.path), full.fileno()))


@pytest.mark.parametrize("words", ALONE[3:7])
def test_a_reader_that_has_gone_is_no_complaint(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert ended(words, writing) == (141, "")
    finally:
        os.close(writing)


def test_complaints_that_nobody_can_hear_change_no_exit_code() -> None:
    with FULL.open("wb") as full:
        assert ended(("explain", "no-such-failure"), subprocess.DEVNULL, full.fileno())[0] == 2
        assert ended(("explain",), full.fileno(), full.fileno())[0] == 2
        assert ended(("status", "--socket", "/nonexistent"), full.fileno(), full.fileno())[0] == 3


def test_output_that_would_block_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    words = [sys.executable, "-c", PROGRAM, "explain", "--json"]
    with subprocess.Popen(words, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        with os.fdopen(reading, "rb") as answer:
            said = answer.read()
        assert process.stderr is not None
        assert (process.wait(60), process.stderr.read()) == (0, b"")
    assert len(said) > 1 << 16
    assert said.endswith(b"\n")


def test_a_picture_that_can_be_put_nowhere_is_said_before_the_minute_that_it_takes() -> None:
    code, err = ended(("demo", "--picture", "/nonexistent/x.svg"), subprocess.DEVNULL)
    assert code == 2
    assert "cannot write /nonexistent/x.svg" in err
