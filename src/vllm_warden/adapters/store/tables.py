"""Reads and writes the rows of the history: on disk, and the same in memory while it must be."""

from __future__ import annotations

import json
import sqlite3

from vllm_warden.adapters.store.identity import is_same, numbered
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
LOOK_BACK = 100
"""So many rows of an instance are looked through for one that was given another number."""


class Tables:
    """Plain statements over one connection; every method raises sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._since_trim = 0

    def put_numbered(self, table: str, number: int, document: Document) -> None:
        """Insert an event or incident, or replace an older form of the same one.

        A different one under that number stays, and this one goes above all others. The oldest
        beyond the cap go now and then.
        """
        with self._connection:
            self._put(table, number, document)
            self._trim_now_and_then()

    def put_failure(
        self, incident: tuple[int, Document], instance: str, attempt: tuple[int, Document]
    ) -> None:
        """Write an incident and the attempt whose end it tells of: both or neither."""
        with self._connection:
            self._put("incidents", *incident)
            self._put_attempt(instance, *attempt)
            self._trim_now_and_then()

    def _trim_now_and_then(self) -> None:
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
        """Like ``put_numbered``, with numbers of the instance's own."""
        with self._connection:
            self._put_attempt(instance, number, document)

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
        """Write all of our rows into the other one, whole or not at all.

        None of its rows is replaced by one that tells of something else; what was learned is ours.
        """
        rows = self._connection.execute
        with other._connection:
            for table in ("events", "incidents"):
                statement = f"SELECT number, document FROM {table} ORDER BY number"  # noqa: S608
                for number, text in rows(statement):
                    other._put(table, number, json.loads(text))
            attempts = rows("SELECT instance, number, document FROM attempts ORDER BY number")
            for instance, number, text in attempts:
                other._put_attempt(instance, number, json.loads(text))
            other._connection.executemany(
                "INSERT OR REPLACE INTO learned VALUES (?, ?)",
                rows("SELECT instance, document FROM learned").fetchall(),
            )
            other.trim()

    def close(self) -> None:
        self._connection.close()

    def _put(self, table: str, number: int, document: Document) -> None:
        instance = document.get("instance")
        number = self._place(table, instance, number, document)
        self._connection.execute(
            f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)",  # noqa: S608
            (number, instance, json.dumps(numbered(document, number))),
        )

    def _put_attempt(self, instance: str, number: int, document: Document) -> None:
        number = self._place("attempts", instance, number, document)
        self._connection.execute(
            "INSERT OR REPLACE INTO attempts VALUES (?, ?, ?)",
            (instance, number, json.dumps(numbered(document, number))),
        )
        self._connection.execute(
            "DELETE FROM attempts WHERE instance = ? AND number <= ?",
            (instance, number - ATTEMPTS_MAX),
        )

    def _place(self, table: str, instance: object, number: int, document: Document) -> int:
        """The number that the document goes under: its own, unless a different one has it."""
        select = f"SELECT number, document FROM {table} WHERE instance IS ?1"  # noqa: S608
        everywhere = "" if table == "attempts" else "OR TRUE"
        mine = f"(instance IS ?1 {everywhere})"
        there = self._connection.execute(
            f"SELECT document FROM {table} WHERE number = ?2 AND {mine}",  # noqa: S608
            (instance, number),
        ).fetchone()
        if there is None or is_same(table, json.loads(there[0]), document):
            return number
        newest = f"{select} ORDER BY number DESC LIMIT {LOOK_BACK}"
        if table != "events":  # an event is written once, so it cannot be there already
            for other, text in self._connection.execute(newest, (instance,)):
                if is_same(table, json.loads(text), document):
                    return int(other)
        highest = f"SELECT max(number) FROM {table} WHERE {mine}"  # noqa: S608
        (found,) = self._connection.execute(highest, (instance,)).fetchone()
        return int(found) + 1

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
