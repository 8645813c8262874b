"""One start at a time on a GPU, whoever starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from vllm_warden.adapters.process.start_lock import StartLock, StartTaken

GPU = f"GPU-{os.getpid()}"
HOLDS = (
    "import sys\n"
    "from vllm_warden.adapters.process.start_lock import StartLock\n"
    "lock = StartLock(sys.argv[1:])\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)


@contextmanager
def held_elsewhere(*uuids: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", HOLDS, *uuids]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.communicate("")


def test_another_process_is_named_and_nothing_is_taken_then() -> None:
    with held_elsewhere(f"{GPU}-1") as other:
        for _ in range(20):  # as often as a gate looks
            with pytest.raises(StartTaken) as caught:
                StartLock([f"{GPU}-0", f"{GPU}-1"])
        assert f"pid {other.pid} (uid {os.geteuid()}, python" in str(caught.value)
        StartLock([f"{GPU}-0"]).release()


def test_who_is_killed_lets_go() -> None:
    with held_elsewhere(GPU) as other:
        other.kill()
        other.wait()
        StartLock([GPU]).release()


def test_a_lock_can_be_had_again_after_its_release_and_not_before() -> None:
    first = StartLock([GPU])
    with pytest.raises(StartTaken):
        StartLock([GPU])
    first.release()
    first.release()
    StartLock([GPU]).release()


def test_an_engine_does_not_inherit_it() -> None:
    lock = StartLock([GPU])
    with subprocess.Popen(["sleep", "60"]) as engine:
        lock.release()
        StartLock([GPU]).release()
        engine.kill()
