"""``diagnose`` reads logs of any length in constant memory, in a process of its own."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving_log import DEATH, write_serving_log

MIB = 1 << 20
_MEASURE = """
import re, sys
from pathlib import Path
from vllm_warden.cli.main import main
code = main(sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1], file=sys.stderr)
sys.exit(code)
"""
"""Not ru_maxrss: a child begins with that of the process that it was forked from."""
PEAK_BYTES_MAX = 96 * MIB
"""An interpreter with all of ours imported takes 40 MiB; a block of the log takes some MiB."""


@pytest.fixture(scope="module")
def size(pytestconfig) -> int:
    """`make test-long` takes more; it is known by its new random examples."""
    is_long = pytestconfig.getoption("--hypothesis-profile", None) == "new"
    return (300 if is_long else 30) * MIB


def diagnosed(*words: object) -> tuple[dict[str, object], int]:
    """The last answer, and the peak of memory in bytes."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, "diagnose", "--json", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout.splitlines()[-1]), int(done.stderr.split()[-1]) * 1024


@pytest.mark.slow
def test_weeks_of_service_take_no_memory_and_the_death_is_found(tmp_path: Path, size: int) -> None:
    log = tmp_path / "engine.log"
    write_serving_log(log, size)
    short, _ = diagnosed(DEATH)
    long, peak = diagnosed(log)

    assert peak < PEAK_BYTES_MAX
    assert {**long, "file": 0, "evidence": 0, "consequences": 0, "last_line": 0} == {
        **short, "file": 0, "evidence": 0, "consequences": 0, "last_line": 0,
    }  # fmt: skip
    with log.open("rb") as file:
        assert long["last_line"] == sum(1 for _ in file)


@pytest.mark.slow
def test_a_line_of_a_hundred_megabytes_takes_no_memory(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    start, end = DEATH.read_bytes().split(b"\n")[:40], DEATH.read_bytes().split(b"\n")[40:]
    with log.open("wb") as file:
        file.write(b"\n".join(start) + b"\nINFO 11-29 12:00:00 [x.py:1] ")
        for _ in range(100):
            file.write(b"x" * MIB)
        file.write(b"\n" + b"\n".join(end))
    found, peak = diagnosed(log)

    assert peak < PEAK_BYTES_MAX
    assert found["failure"] == diagnosed(DEATH)[0]["failure"]


@pytest.mark.slow
def test_refused_requests_without_number_take_no_memory(tmp_path: Path, size: int) -> None:
    """Each with a traceback and a text of its own, as vLLM before 0.11 printed them."""
    log = tmp_path / "engine.log"
    frames = "".join(
        f'ERROR 11-29 12:00:00 [s.py:1]   File "x{n}.py", line 1, in f\n' for n in range(20)
    )
    lines = DEATH.read_bytes().split(b"\n")
    start = next(at for at, line in enumerate(lines) if b"Application startup complete" in line) + 1
    with log.open("wb") as file:
        file.write(b"\n".join(lines[:start]) + b"\n")
        number = 0
        while file.tell() < size / 6:
            number += 1
            head = "ERROR 11-29 12:00:00 [s.py:1] "
            file.write(f"{head}Traceback (most recent call last):\n{frames}".encode())
            file.write(f"{head}ValueError: request {number} is too long {'x' * 800}\n".encode())
        file.write(b"\n".join(lines[start:]))
    found, peak = diagnosed(log)

    assert peak < PEAK_BYTES_MAX
    assert found["failure"] == "killed_by_signal"


@pytest.mark.slow
def test_a_compressed_log_is_never_unpacked_as_a_whole(tmp_path: Path, size: int) -> None:
    log, packed = tmp_path / "engine.log", tmp_path / "engine.log.1"
    write_serving_log(log, size)
    with log.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as file:
        while chunk := plain.read(MIB):
            file.write(chunk)
    found, peak = diagnosed(packed)

    assert peak < PEAK_BYTES_MAX
    assert found["failure"] == "killed_by_signal"


@pytest.mark.slow
def test_a_bar_is_shown_on_a_terminal_only_and_never_in_the_answer(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    write_serving_log(log, 40 * MIB)
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "vllm_warden", "diagnose", "--json", str(log)]
    environment = {**os.environ, "TERM": "xterm"}  # a dumb one cannot show a bar
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=terminal, text=True, env=environment
    ) as child:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal says that nobody has it open any more
            while part := os.read(ours, 4096):
                shown += part
        assert child.stdout is not None
        answer = child.stdout.read()
    os.close(ours)
    quiet = subprocess.run(command, check=False, capture_output=True, text=True)

    assert b"MiB" in shown
    assert json.loads(answer) == json.loads(quiet.stdout)
    assert quiet.stderr == ""
