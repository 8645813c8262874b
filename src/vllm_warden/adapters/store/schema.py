"""The tables of the history database, and how they are opened, capped and set aside."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SCHEMA_VERSION = 2
MODE = 0o640
"""Incidents hold log lines. The engine's user may pass through the directory to its own files."""
EVENTS_MAX = 10_000
INCIDENTS_MAX = 1_000
ATTEMPTS_MAX = 2_000

TABLES = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY, instance TEXT, document TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS attempts (
    instance TEXT NOT NULL, number INTEGER NOT NULL, document TEXT NOT NULL,
    PRIMARY KEY (instance, number)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS incidents (
    number INTEGER PRIMARY KEY, instance TEXT, document TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS incidents_of_instance ON incidents (instance, number);
CREATE TABLE IF NOT EXISTS learned (
    instance TEXT PRIMARY KEY, document TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""


TO_2 = """
UPDATE incidents SET document = json_set(
    document, '$.failures', 1, '$.further', json('[]'), '$.recovered',
    CASE WHEN json_extract(document, '$.resolution') LIKE 'attempt % is ready%'
        THEN json_extract(document, '$.resolved') END)
    WHERE json_valid(document);
"""
"""Up to schema 1 an incident was one failure, and being ready resolved it."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A usable connection, whether it may be written, and what the operator should know."""

    connection: sqlite3.Connection
    writable: bool
    condition: str | None


def open_history(path: Path) -> Opened:
    """Open or make the database. Raises sqlite3.Error or OSError when nothing works.

    A damaged file is renamed, never deleted; one of a newer program is only read.
    """
    try:
        return _open(path)
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise  # locked, full, no permission: the file itself may be fine
    aside = set_aside(path)
    opened = _open(path)
    condition = f"history {path} was damaged; set aside as {aside}, a new one was begun"
    return Opened(opened.connection, opened.writable, condition)


def set_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.corrupt-{int(time.time())}")
    path.replace(aside)
    for suffix in ("-wal", "-shm"):
        rest = path.with_name(path.name + suffix)
        if rest.exists():
            rest.replace(aside.with_name(aside.name + suffix))
    return aside


def _open(path: Path) -> Opened:
    _make_private(path)
    connection = sqlite3.connect(path, timeout=1.0)
    try:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > SCHEMA_VERSION:
            connection.close()
            return _open_read_only(path, version)
        _check(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(TABLES)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            if version == 1:
                connection.execute(TO_2)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except BaseException:
        connection.close()
        raise
    return Opened(connection, writable=True, condition=None)


def _make_private(path: Path) -> None:
    """Before it is opened: SQLite gives the files beside it the mode that the database has."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE))
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(OSError):  # not there, or another user's
            path.with_name(name).chmod(MODE)


def _check(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)


def _open_read_only(path: Path, version: int) -> Opened:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)
    condition = (
        f"history {path} has schema {version}, this program knows {SCHEMA_VERSION}; "
        "it is only read, new history is kept in memory"
    )
    return Opened(connection, writable=False, condition=condition)
