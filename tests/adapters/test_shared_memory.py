"""Only what nobody uses goes from /dev/shm, and only what an attempt was seen to use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vllm_warden.adapters.process.shared_memory import (
    SHARED,
    list_shared,
    remove_unused,
    shared_files,
    unused,
)
from vllm_warden.core.model import SharedFile

USES = (
    "import mmap, os, sys\n"
    "file = open(sys.argv[1], 'r+b')\n"
    "area = mmap.mmap(file.fileno(), 4096)\n"
    "if sys.argv[2] == 'mapped': file.close()\n"
    "print('ready', flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture
def made() -> Iterator[Path]:
    path = SHARED / f"psm_warden_test_{os.getpid()}"
    path.write_bytes(bytes(4096))
    yield path
    path.unlink(missing_ok=True)


@contextmanager
def used(path: Path, how: str) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", USES, str(path), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate("")


@pytest.mark.parametrize("how", ["open", "mapped"])
def test_a_file_in_use_is_seen_and_stays_until_its_last_user_is_gone(made: Path, how: str) -> None:
    with used(made, how) as pid:
        files = shared_files([pid])
        assert [file.name for file in files] == [made.name]
        assert remove_unused(files) == []
        assert made.exists()
    assert remove_unused(files) == [made.name]
    assert not made.exists()


def test_another_file_of_the_same_name_stays(made: Path) -> None:
    with used(made, "open") as pid:
        files = shared_files([pid])
    made.rename(f"{made}.kept")
    made.write_bytes(b"somebody else's")
    try:
        assert remove_unused(files) == []
        assert made.exists()
    finally:
        Path(f"{made}.kept").unlink()


def test_where_one_process_cannot_be_looked_at_nothing_is_unused(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = made.stat()
    files = [SharedFile(made.name, status.st_dev, status.st_ino)]
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "7" / "maps").touch()
    assert unused(files, tmp_path) == frozenset(files)

    def refuse(_: object) -> Iterator[Path]:
        raise PermissionError

    directories = Path.iterdir
    monkeypatch.setattr(
        Path, "iterdir", lambda self: refuse(self) if self.name == "fd" else directories(self)
    )
    assert unused(files, tmp_path) == frozenset()


def test_links_and_directories_are_no_shared_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "directory").mkdir()
    (tmp_path / "psm_1").touch()
    assert [file.name for file in list_shared(tmp_path)] == ["psm_1"]
