"""A directory of an engine goes, whatever is in it, and nothing else goes with it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_warden.daemon.remove_tree import _take, remove_tree

DEPTH = 3000


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "t"
    directory.mkdir()
    (directory / "file").write_text("x")
    (directory / "a").mkdir()
    (directory / "a" / "b").mkdir()
    (directory / "a" / "b" / "file").write_text("x")
    yield directory
    subprocess.run(["rm", "-rf", str(directory)], check=True)  # pytest's own removal recurses


def deepen(directory: Path) -> None:
    """Longer than any path may be, so it is made step by step."""
    here = os.getcwd()  # noqa: PTH109
    os.chdir(directory)
    try:
        for _ in range(DEPTH):
            os.mkdir("d")  # noqa: PTH102
            os.chdir("d")
        Path("file").write_text("x")
    finally:
        os.chdir(here)


def test_a_tree_of_any_depth_goes_with_few_descriptors(tree: Path) -> None:
    deepen(tree)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, before[1]))  # noqa: PTH208
    try:
        assert remove_tree(tree) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not tree.exists()


def test_symlinks_are_removed_and_not_followed(tree: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    (tree / "a" / "out").symlink_to(kept)
    (tree / "out").symlink_to(kept / "file")
    assert remove_tree(tree) is None
    assert (kept / "file").read_text() == "x"


def test_a_symlink_in_the_place_of_the_directory_is_refused(tree: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tree)
    assert remove_tree(link) is not None
    assert (tree / "a" / "b" / "file").exists()


def test_directories_that_forbid_it_go_too() -> None:
    """As a user without root's rights, which would make it too easy."""
    script = (
        "import os, sys\nfrom pathlib import Path\n"
        "sys.path[:0] = [sys.argv[2]]\n"
        "from vllm_warden.daemon.remove_tree import remove_tree\n"
        "os.geteuid() == 0 and os.seteuid(65534)\n"
        "top = Path(sys.argv[1], 't')\n"
        "(top / 'a' / 'b').mkdir(parents=True)\n"
        "(top / 'a' / 'b' / 'file').write_text('x')\n"
        "for one in (top / 'a' / 'b', top / 'a', top):\n    one.chmod(0)\n"
        "print(remove_tree(top), top.exists())\n"
    )
    source = str(Path(__file__).parents[2] / "src")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        ran = subprocess.run(
            [sys.executable, "-c", script, name, source],
            capture_output=True,
            text=True,
            check=True,
        )
    assert ran.stdout == "None False\n"


def test_what_takes_too_long_is_left_and_said(tree: Path) -> None:
    assert remove_tree(tree, limit_seconds=-1) == "it holds more than could be removed in time"
    assert tree.exists()


def test_what_is_gone_or_no_directory_needs_no_removal(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "absent") is None
    (tmp_path / "file").write_text("x")
    assert remove_tree(tmp_path / "file") == "Not a directory"


def test_what_is_mounted_below_is_not_entered(tree: Path) -> None:
    """/proc is another file system everywhere, so it stands in for a mount."""
    device = tree.stat().st_dev
    with pytest.raises(OSError, match="mounted"):
        _take("/proc/sys", None, device)


def test_what_somebody_else_removes_meanwhile_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "t"
    directory.mkdir()

    def faster(_: object) -> None:
        directory.rmdir()

    monkeypatch.setattr("vllm_warden.daemon.remove_tree._Removal.empty_top", faster)

    assert remove_tree(directory) is None
