"""Installs supervisord, circus and runit beside us and runs the same child under each."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import engine as engines
from benchmarks.warden import free_port

VENV = Path(__file__).with_name(".venv-peers")
PACKAGES = ("supervisor", "circus", "setuptools<81")
"""supervisor 4 still imports pkg_resources, which setuptools 81 dropped."""
NAMES = ("supervisord", "circus", "runit")
RUNIT = VENV / "runit"
UP_SECONDS = 1.3
"""supervisord counts a child as started after one second (startsecs)."""

SUPERVISORD = """\
[supervisord]
nodaemon=true
logfile={directory}/supervisord.log
pidfile={directory}/supervisord.pid

[program:engine]
command={program} serve m --port {port}
"""

CIRCUS = """\
[circus]
endpoint = ipc://{directory}/endpoint
pubsub_endpoint = ipc://{directory}/pubsub

[watcher:engine]
cmd = {program} serve m --port {port}
copy_env = True
"""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    engine: engines.Engine

    def settle(self) -> None:
        self.engine.next_start(0)
        time.sleep(UP_SECONDS)


def environment() -> tuple[Path | None, str]:
    """The venv's bin directory, or None and why the peers cannot be installed."""
    programs = VENV / "bin"
    if not (programs / "supervisord").exists() or not (programs / "circusd").exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True, capture_output=True)
            subprocess.run(
                [programs / "python", "-m", "pip", "install", "--quiet", *PACKAGES],
                check=True,
                capture_output=True,
                timeout=300,
            )
        except (subprocess.SubprocessError, OSError) as error:
            return None, _in_words(error)
    return programs, ""


def runit_program() -> tuple[Path | None, str]:
    """Debian's own runsv, unpacked beside the venv and not installed; or None and why not."""
    program = RUNIT / "usr" / "bin" / "runsv"
    if not program.exists():
        RUNIT.mkdir(parents=True, exist_ok=True)
        words = 'apt-get download --quiet runit && dpkg -x runit_*.deb "$PWD" && rm runit_*.deb'
        try:
            subprocess.run(["sh", "-c", words], cwd=RUNIT, check=True, capture_output=True)
        except (subprocess.SubprocessError, OSError) as error:
            return None, _in_words(error)
    return program, ""


def _in_words(error: Exception) -> str:
    reason = getattr(error, "stderr", b"") or str(error).encode()
    last = (reason.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]
    return f"cannot be installed here: {last[:160]}"


@contextlib.contextmanager
def runit(directory: Path, program: Path) -> Iterator[Peer]:
    """One runsv; a child that has run for less than a second is started again a second later."""
    home = directory / "runit"
    engine = _engine(home)
    service = home / "service"
    service.mkdir()
    run = service / "run"
    run.write_text(f"#!/bin/sh\nexec {engine.program} serve m --port {free_port()}\n")
    run.chmod(0o755)
    with _running([str(program), str(service)], engine, home):
        yield Peer("runit", engine)


@contextlib.contextmanager
def supervisord(directory: Path, programs: Path) -> Iterator[Peer]:
    home = directory / "supervisord"
    engine = _engine(home)
    config = home / "supervisord.conf"
    config.write_text(SUPERVISORD.format(directory=home, program=engine.program, port=free_port()))
    words = [str(programs / "supervisord"), "--configuration", str(config)]
    with _running(words, engine, home):
        yield Peer("supervisord", engine)


@contextlib.contextmanager
def circus(directory: Path, programs: Path) -> Iterator[Peer]:
    home = directory / "circus"
    engine = _engine(home)
    config = home / "circus.ini"
    config.write_text(CIRCUS.format(directory=home, program=engine.program, port=free_port()))
    with _running([str(programs / "circusd"), str(config)], engine, home):
        yield Peer("circus", engine)


def _engine(home: Path) -> engines.Engine:
    home.mkdir(parents=True)
    return engines.build(home / "engine")


@contextlib.contextmanager
def _running(words: list[str], engine: engines.Engine, home: Path) -> Iterator[None]:
    """The supervisor with the stamps' paths in its environment; SIGTERM ends it and its child."""
    with (home / "output.log").open("wb") as log:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home,
            env=os.environ | engine.environment(),
            start_new_session=True,
        )
    try:
        yield
    except TimeoutError:
        print((home / "output.log").read_text(errors="replace")[-2000:], file=sys.stderr)
        raise
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
