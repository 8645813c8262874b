"""What the real journalctl prints of a log, in each of its formats, is diagnosed as the log is."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from tests.core.diagnose.sample_files import SAMPLES
from vllm_warden.core.diagnose.whole_log import diagnosed_runs

OOM = (SAMPLES / "sampler-warmup-oom" / "composed.log").read_text().splitlines()
COLOURED = [
    line.replace("ERROR", "\x1b[31mERROR\x1b[0m").replace("(Worker", "\x1b[0;36m(Worker")
    for line in OOM
]
FORMATS = [
    *("short", "short-full", "short-iso", "short-iso-precise", "short-precise", "short-monotonic"),
    *(
        "short-unix",
        "with-unit",
        "verbose",
        "export",
        "json",
        "json-pretty",
        "json-sse",
        "json-seq",
    ),
    "cat",
]


def write(identifier: str, lines: list[str]) -> None:
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect("/run/systemd/journal/stdout")
        stream.sendall(f"{identifier}\n\n6\n0\n0\n0\n0\n".encode())
        stream.sendall("".join(f"{line}\n" for line in lines).encode())


@pytest.fixture(scope="module")
def identifiers() -> dict[str, str]:
    names = {name: f"{name}-{os.urandom(4).hex()}" for name in ("plain", "coloured")}
    write(names["plain"], OOM)
    write(names["coloured"], COLOURED)
    for name in names.values():
        # journald reads the streams of two processes when it likes
        while printed("cat", name).count(b"\n") < len([line for line in OOM if line.strip()]):
            subprocess.run(["journalctl", "--sync"], check=True)
    return names


def printed(form: str, identifier: str, *words: str) -> bytes:
    command = ["journalctl", "-q", "--no-pager", "-o", form, "-t", identifier, *words]
    return subprocess.run(command, check=True, capture_output=True).stdout


def verdict(data: bytes) -> tuple[object, ...]:
    found = list(diagnosed_runs([data]))[-1].diagnosis
    return found.signature, found.phase, found.ranks, dict(found.figures), found.engine_version


@pytest.mark.journald
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("log", ["plain", "coloured"])
def test_the_verdict_is_that_of_the_log_itself(identifiers, form: str, log: str) -> None:
    bare = verdict("\n".join(OOM).encode())

    assert bare[0] == "sampler-warmup-oom"
    assert verdict(printed(form, identifiers[log], "--all")) == bare


@pytest.mark.journald
@pytest.mark.parametrize("form", ["short", "json", "export"])
def test_also_without_the_option_that_shows_all(identifiers, form: str) -> None:
    assert verdict(printed(form, identifiers["plain"])) == verdict("\n".join(OOM).encode())
