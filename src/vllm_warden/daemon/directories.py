"""Makes the directories that an engine owns, and removes the temporary ones once it is gone."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from vllm_warden.daemon.remove_tree import remove_tree

TMPDIR_BYTES_MAX = 70
"""A Unix socket's path ends at 107 bytes (unix(7)), and vLLM adds 37 to the directory."""

ELSEWHERE_PREFIX = "vllm-warden-"
ELSEWHERE = ".elsewhere"
"""Ending of the note in the state directory that names a temporary directory outside it."""


@dataclass(frozen=True, slots=True)
class Account:
    """Who an engine's directories belong to."""

    uid: int
    gid: int


def make_temporary(state_directory: Path, launch_prefix: str, user: str | None) -> Path:
    """The attempt's own TMPDIR, short enough for the Unix sockets that vLLM makes in it.

    Below the state directory, or in the system's where that path is too long; the second kind is
    noted before it is made, so that a daemon that gets killed leaves nothing that nobody knows of.
    Raises OSError.
    """
    own = state_directory / "t" / launch_prefix
    if len(os.fsencode(own)) <= TMPDIR_BYTES_MAX:
        return make_owned(state_directory, f"t/{launch_prefix}", user)
    account = _account(user)
    elsewhere = Path(tempfile.gettempdir()) / f"{ELSEWHERE_PREFIX}{launch_prefix}"
    note = _note(state_directory, launch_prefix)
    note.parent.mkdir(mode=0o711, exist_ok=True)
    owner = os.geteuid() if account is None else account.uid
    note.write_text(f"{owner}\n{elsewhere}", encoding="utf-8", errors="surrogateescape")
    try:
        elsewhere.mkdir(mode=0o700)
    except OSError:
        note.unlink()  # what is there is not ours to remove
        raise
    _give_to(elsewhere, account)
    return elsewhere


def make_owned(state_directory: Path, relative: str, user: str | None) -> Path:
    """A directory below the state directory that belongs to the engine's user. Raises OSError."""
    account = _account(user)
    directory = state_directory / relative
    directory.parent.mkdir(mode=0o710, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    _give_to(directory, account)
    if account is not None:
        # the engine's user must reach its own directory, and may not list the others'
        for passed in (directory.parent, state_directory):
            passed.chmod(passed.stat().st_mode | 0o001)
    return directory


def remove_temporary(state_directory: Path, launch_prefix: str) -> str | None:
    """Remove an attempt's TMPDIR, wherever it was made: None when it is gone, else why not. Blocks.

    An engine can put a link in its place: that goes, and what it points to stays.
    """
    own = state_directory / "t" / launch_prefix
    note = _note(state_directory, launch_prefix)
    try:
        problem = _remove(own)
        elsewhere = _noted(note)
        if problem is None and elsewhere is not None:
            own = elsewhere
            problem = _remove(elsewhere)
        if problem is None:
            note.unlink(missing_ok=True)
    except OSError as error:
        problem = error.strerror or str(error)
    return None if problem is None else f"cannot remove {own}: {problem}"


def temporary_prefixes(state_directory: Path) -> set[str]:
    """Launch prefixes of all temporary directories that were made and not removed."""
    try:
        return {path.name.removesuffix(ELSEWHERE) for path in (state_directory / "t").iterdir()}
    except FileNotFoundError:
        return set()


def _note(state_directory: Path, launch_prefix: str) -> Path:
    return state_directory / "t" / f"{launch_prefix}{ELSEWHERE}"


def _noted(note: Path) -> Path | None:
    """The directory that the note names, if it is there and its owner is the one noted, or us.

    In a directory that all may write, somebody else may have taken the name meanwhile.
    """
    try:
        owner, _, elsewhere = note.read_text("utf-8", "surrogateescape").partition("\n")
        uid = Path(elsewhere).lstat().st_uid
    except FileNotFoundError:
        return None
    expected = f"{ELSEWHERE_PREFIX}{note.name.removesuffix(ELSEWHERE)}"
    is_ours = Path(elsewhere).name == expected and (uid == os.geteuid() or str(uid) == owner)
    return Path(elsewhere) if is_ours else None


def _remove(path: Path) -> str | None:
    try:
        if stat.S_ISDIR(path.lstat().st_mode):
            return remove_tree(path)  # refuses a link that takes its place meanwhile
        path.unlink()
    except FileNotFoundError:
        return None
    return None


def _account(user: str | None) -> Account | None:
    """Raises OSError where there is no such user (any more)."""
    if user is None:
        return None
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise OSError(f"cannot launch as user {user}: there is no such user") from None
    return Account(entry.pw_uid, entry.pw_gid)


def _give_to(directory: Path, account: Account | None) -> None:
    if account is not None:
        os.chown(directory, account.uid, account.gid, follow_symlinks=False)
