"""Reads and writes the rows of the history: on disk, and the same in memory while it must be."""

from __future__ import annotations

import json
import sqlite3

from vllm_warden.adapters.store.schema import (
    ATTEMPTS_MAX,
    EVENTS_MAX,
    INCIDENTS_MAX,
    SCHEMA_VERSION,
    TABLES,
)

Document = dict[str, object]

CAPS = {"events": EVENTS_MAX, "incidents": INCIDENTS_MAX}
TRIM_EVERY = 64


class Tables:
    """Plain statements over one connection; every method raises sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._since_trim = 0

    def put_numbered(self, table: str, number: int, document: Document) -> None:
        """Insert or replace an event or incident; the oldest beyond the cap go now and then."""
        with self._connection:
            self._connection.execute(
                f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)",  # noqa: S608
                (number, document.get("instance"), json.dumps(document)),
            )
            self._since_trim += 1
            if self._since_trim >= TRIM_EVERY:
                self.trim()

    def trim(self) -> None:
        self._since_trim = 0
        for table, cap in CAPS.items():
            self._connection.execute(
                f"DELETE FROM {table} WHERE number <= "  # noqa: S608
                f"(SELECT number FROM {table} ORDER BY number DESC LIMIT 1 OFFSET ?)",
                (cap,),
            )

    def put_attempt(self, instance: str, number: int, document: Document) -> None:
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?)",
                (instance, number, json.dumps(document)),
            )
            self._connection.execute(
                "DELETE FROM attempts WHERE instance = ? AND number <= ?",
                (instance, number - ATTEMPTS_MAX),
            )

    def put_learned(self, instance: str, document: Document | None) -> None:
        """None forgets."""
        with self._connection:
            if document is None:
                self._connection.execute("DELETE FROM learned WHERE instance = ?", (instance,))
                return
            self._connection.execute(
                "INSERT OR REPLACE INTO learned VALUES (?, ?)", (instance, json.dumps(document))
            )

    def incidents(self, instance: str | None, limit: int) -> list[Document]:
        """Newest first."""
        return self._documents(
            "SELECT document FROM incidents WHERE ?1 IS NULL OR instance = ?1 "
            "ORDER BY number DESC LIMIT ?2",
            (instance, limit),
        )

    def incident(self, number: int) -> Document | None:
        rows = self._documents("SELECT document FROM incidents WHERE number = ?", (number,))
        return rows[0] if rows else None

    def attempts(self, instance: str, limit: int) -> list[Document]:
        """Newest first."""
        return self._documents(
            "SELECT document FROM attempts WHERE instance = ? ORDER BY number DESC LIMIT ?",
            (instance, limit),
        )

    def events_after(self, after: int, limit: int) -> list[Document]:
        """Oldest first."""
        return self._documents(
            "SELECT document FROM events WHERE number > ? ORDER BY number LIMIT ?", (after, limit)
        )

    def learned(self) -> dict[str, Document]:
        rows = self._connection.execute("SELECT instance, document FROM learned").fetchall()
        return {instance: json.loads(document) for instance, document in rows}

    def last_event(self) -> int:
        return self._number("SELECT max(number) FROM events")

    def last_incident(self) -> int:
        return self._number("SELECT max(number) FROM incidents")

    def last_attempts(self) -> dict[str, int]:
        statement = "SELECT instance, max(number) FROM attempts GROUP BY instance"
        return dict(self._connection.execute(statement).fetchall())

    def copy_into(self, other: Tables) -> None:
        """Write all of our rows into the other one; what it has of the same number is replaced."""
        for table in ("events", "attempts", "incidents", "learned"):
            rows = self._connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                statement = f"INSERT OR REPLACE INTO {table} VALUES ({marks})"  # noqa: S608
                with other._connection:
                    other._connection.executemany(statement, rows)

    def close(self) -> None:
        self._connection.close()

    def _documents(self, statement: str, values: tuple[object, ...]) -> list[Document]:
        rows = self._connection.execute(statement, values).fetchall()
        return [json.loads(document) for (document,) in rows]

    def _number(self, statement: str) -> int:
        return int(self._connection.execute(statement).fetchone()[0] or 0)


def tables_in_memory() -> Tables:
    """Stands in for the file while that cannot be written."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(TABLES)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return Tables(connection)
