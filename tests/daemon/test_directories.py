"""The directories of an engine: made for its user, removed with it, and nothing else with them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from vllm_warden.daemon import directories
from vllm_warden.daemon.directories import (
    make_owned,
    make_temporary,
    remove_temporary,
    temporary_prefixes,
)

PREFIX = "0123abcd"
as_root = os.geteuid() == 0
OTHER = "nobody" if as_root else None


@pytest.fixture
def state() -> Iterator[Path]:
    """Short enough for a TMPDIR below it, wherever pytest puts its own."""
    with tempfile.TemporaryDirectory(prefix="x1") as short:
        directory = Path(short) / "state"
        directory.mkdir(0o750)
        yield directory


@pytest.fixture
def long_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """So deep that a TMPDIR below it would be too long for a socket."""
    directory = tmp_path / ("d" * 70)
    directory.mkdir(0o750)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return directory


def test_a_temporary_directory_belongs_to_the_engines_user_alone(state: Path) -> None:
    made = make_temporary(state, PREFIX, OTHER)

    assert made == state / "t" / PREFIX
    status = made.stat()
    assert status.st_mode & 0o777 == 0o700
    assert (status.st_uid != os.geteuid()) == as_root
    assert state.stat().st_mode & 0o777 == (0o751 if as_root else 0o750)


def test_it_is_gone_with_all_it_holds_and_its_neighbours_stay(state: Path) -> None:
    made, neighbour = make_temporary(state, PREFIX, None), make_temporary(state, "f" * 8, None)
    (made / "cache").mkdir()
    (made / "cache" / "file").write_text("x")

    assert remove_temporary(state, PREFIX) is None
    assert remove_temporary(state, PREFIX) is None  # gone already

    assert not made.exists()
    assert neighbour.exists()
    assert temporary_prefixes(state) == {"f" * 8}


def test_a_link_in_its_place_is_removed_and_what_it_points_to_is_not(
    state: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    made = make_temporary(state, PREFIX, None)
    made.rmdir()
    made.symlink_to(precious)

    assert remove_temporary(state, PREFIX) is None

    assert not made.is_symlink()
    assert (precious / "file").exists()


def test_a_link_is_never_given_to_the_engines_user(state: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    before = precious.stat().st_uid
    (state / "cache").mkdir()
    (state / "cache" / "one").symlink_to(precious)

    make_owned(state, "cache/one", OTHER)

    assert precious.stat().st_uid == before


def test_where_the_path_would_be_too_long_the_systems_directory_is_used_and_noted(
    long_state: Path, tmp_path: Path
) -> None:
    made = make_temporary(long_state, PREFIX, OTHER)

    assert made == tmp_path / "tmp" / f"vllm-warden-{PREFIX}"
    assert temporary_prefixes(long_state) == {PREFIX}
    (made / "file").write_text("x")
    assert remove_temporary(long_state, PREFIX) is None
    assert not made.exists()
    assert temporary_prefixes(long_state) == set()


def test_a_directory_elsewhere_that_was_there_before_is_neither_used_nor_removed(
    long_state: Path, tmp_path: Path
) -> None:
    foreign = tmp_path / "tmp" / f"vllm-warden-{PREFIX}"
    foreign.mkdir()

    with pytest.raises(FileExistsError):
        make_temporary(long_state, PREFIX, None)
    assert remove_temporary(long_state, PREFIX) is None

    assert foreign.exists()


def test_a_directory_elsewhere_that_is_somebody_elses_by_now_stays(
    long_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_temporary(long_state, PREFIX, None)
    ours = made.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
    note = long_state / "t" / f"{PREFIX}{directories.ELSEWHERE}"
    note.write_text(note.read_text().replace(f"{ours}\n", f"{ours + 1}\n", 1))

    assert remove_temporary(long_state, PREFIX) is None

    assert made.exists()


@pytest.mark.parametrize("path", ["/etc", "/tmp/vllm-warden-ffffffff", "relative"])
def test_a_note_that_names_anything_else_removes_nothing(state: Path, path: str) -> None:
    note = state / "t" / f"{PREFIX}{directories.ELSEWHERE}"
    note.parent.mkdir()
    note.write_text(f"{os.geteuid()}\n{path}")
    assert directories._noted(note) is None


def test_what_cannot_be_removed_is_said_and_stays_known(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_temporary(state, PREFIX, None)
    monkeypatch.setattr(directories, "remove_tree", lambda _: "Device or resource busy")

    assert remove_temporary(state, PREFIX) == f"cannot remove {made}: Device or resource busy"
    assert temporary_prefixes(state) == {PREFIX}


def test_an_unknown_user_is_named(state: Path) -> None:
    with pytest.raises(OSError, match="no-such-user"):
        make_temporary(state, PREFIX, "no-such-user")
    assert temporary_prefixes(state) == set()
