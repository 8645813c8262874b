"""Keeps events, attempts, incidents and learned settings; never fails, never blocks the loop."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from vllm_warden.adapters.daemon_threads import DaemonThreads
from vllm_warden.adapters.store.schema import open_history, set_aside
from vllm_warden.adapters.store.tables import Document, Tables, tables_in_memory

RETRY_SECONDS = 30.0
DEADLINE_SECONDS = 5.0
QUEUE_MAX = 2_000

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class LastNumbers:
    """Where numbering goes on after a restart; 0 means that there was none."""

    event: int = 0
    incident: int = 0
    attempts: dict[str, int] = field(default_factory=dict)


class History:
    """SQLite in one thread of its own.

    Any error becomes a ``condition`` for the operator; the history then lives in memory, and the
    file is tried again every 30 s, with what was gathered meanwhile written into it.
    ``on_condition`` is called in the event loop whenever the condition changed (None: all well).
    """

    def __init__(
        self, path: Path, on_condition: Callable[[str | None], None] | None = None
    ) -> None:
        self.path = path
        self._slow: str | None = None
        self._trouble: str | None = None
        self._told: str | None = None
        self._on_condition = on_condition
        self._thread = DaemonThreads("history")
        self._closed = False
        self._waiting = 0
        self._file: Tables | None = None
        self._memory: Tables | None = None
        self._read_only = False
        self._tried_at = float("-inf")
        self._look: asyncio.TimerHandle | None = None
        self._looks: set[asyncio.Task[str | None]] = set()

    @property
    def condition(self) -> str | None:
        """What the operator should know; None when all is well."""
        return self._slow or self._trouble

    def report_to(self, on_condition: Callable[[str | None], None]) -> None:
        """Call this one, from now on, whenever the condition changes."""
        self._on_condition = on_condition

    async def open(self) -> str | None:
        """Open the file; returns the condition, None when all is well."""
        await self._run(lambda tables: tables.last_event(), 0)
        return self.condition

    async def append_event(self, document: Document) -> None:
        """``document["number"]`` was given by the daemon."""
        number = _number(document)
        await self._run(lambda tables: tables.put_numbered("events", number, document), None)

    async def save_incident(self, number: int, document: Document) -> None:
        await self._run(lambda tables: tables.put_numbered("incidents", number, document), None)

    async def save_failure(
        self, incident: tuple[int, Document], instance: str, attempt: tuple[int, Document]
    ) -> None:
        """The incident and the attempt that ended in it, each with its number: both or neither."""
        await self._run(lambda tables: tables.put_failure(incident, instance, attempt), None)

    async def save_attempt(self, instance: str, number: int, document: Document) -> None:
        await self._run(lambda tables: tables.put_attempt(instance, number, document), None)

    async def save_learned(self, instance: str, document: Document | None) -> None:
        """None forgets what was learned."""
        await self._run(lambda tables: tables.put_learned(instance, document), None)

    async def incidents(self, instance: str | None, limit: int) -> list[Document]:
        """Newest first."""
        return await self._run(lambda tables: tables.incidents(instance, limit), [])

    async def incident(self, number: int) -> Document | None:
        return await self._run(lambda tables: tables.incident(number), None)

    async def attempts(self, instance: str, limit: int) -> list[Document]:
        """Newest first."""
        return await self._run(lambda tables: tables.attempts(instance, limit), [])

    async def events_after(self, after: int, limit: int) -> list[Document]:
        """Oldest first."""
        return await self._run(lambda tables: tables.events_after(after, limit), [])

    async def learned(self) -> dict[str, Document]:
        return await self._run(lambda tables: tables.learned(), {})

    async def last_numbers(self) -> LastNumbers:
        return await self._run(
            lambda tables: LastNumbers(
                tables.last_event(), tables.last_incident(), tables.last_attempts()
            ),
            LastNumbers(),
        )

    async def close(self) -> None:
        """Waits up to the deadline for what is queued; what is in memory gets a last try."""
        self._closed = True
        if self._look is not None:
            self._look.cancel()
        await self._answer(self._finish, None)
        self._thread.shutdown()

    async def _run(self, work: Callable[[Tables], Result], otherwise: Result) -> Result:
        """Run in the history thread; ``otherwise`` when it is late, full or broken."""
        if self._closed:
            return otherwise
        if self._waiting >= QUEUE_MAX:
            self._slow = f"history {self.path} is too slow: {QUEUE_MAX} writes waiting"
            self._tell()
            return otherwise
        return await self._answer(lambda: self._guarded(work, otherwise), otherwise)

    async def _answer(self, work: Callable[[], Result], otherwise: Result) -> Result:
        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._thread, work)
        future.add_done_callback(self._one_less)
        done, _ = await asyncio.wait((future,), timeout=DEADLINE_SECONDS)
        if not done:
            self._slow = f"history {self.path} did not answer in {DEADLINE_SECONDS:g} s"
        elif self._waiting < QUEUE_MAX // 2:
            self._slow = None
        self._tell()
        return future.result() if done else otherwise

    def _tell(self) -> None:
        if self.condition != self._told and self._on_condition is not None:
            self._on_condition(self.condition)
        self._told = self.condition
        is_resting = self._file is not None or self._read_only or self._closed
        if self._look is None and not is_resting:
            loop = asyncio.get_running_loop()
            self._look = loop.call_later(RETRY_SECONDS, self._look_again)

    def _look_again(self) -> None:
        """Where nothing happens nothing is written, and the trouble would seem to last."""
        self._look = None
        task = asyncio.get_running_loop().create_task(self.open())
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    def _one_less(self, _: object) -> None:
        self._waiting -= 1

    def _guarded(self, work: Callable[[Tables], Result], otherwise: Result) -> Result:
        tables = self._usable()
        try:
            return work(tables)
        except (sqlite3.Error, OSError) as error:
            if tables is self._memory:
                return otherwise
            self._fail(error)
        try:
            return work(self._usable())
        except (sqlite3.Error, OSError):
            return otherwise

    def _usable(self) -> Tables:
        """The file where it works, otherwise memory (history thread only)."""
        if self._file is None and time.monotonic() - self._tried_at >= RETRY_SECONDS:
            self._tried_at = time.monotonic()
            self._try_file()
        if self._file is not None:
            return self._file
        if self._memory is None:
            self._memory = tables_in_memory()
        return self._memory

    def _try_file(self) -> None:
        if self._read_only:
            return
        try:
            opened = open_history(self.path)
            tables = Tables(opened.connection)
            if not opened.writable:
                self._read_only = True
                self._memory = tables_in_memory()
                tables.copy_into(self._memory)
                tables.close()
                self._trouble = opened.condition
                return
            if self._memory is not None:
                self._memory.copy_into(tables)
                self._memory.close()
                self._memory = None
        except (sqlite3.Error, OSError) as error:
            self._trouble = f"cannot use history {self.path}: {error}; kept in memory"
            return
        self._file = tables
        self._trouble = opened.condition

    def _fail(self, error: Exception) -> None:
        """Leave the file for now; a damaged one is set aside so that the next try begins anew."""
        assert self._file is not None  # noqa: S101
        with suppress(sqlite3.Error):
            self._file.close()
        self._file = None
        self._tried_at = time.monotonic()
        text = f"cannot use history {self.path}: {error}; kept in memory"
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, (sqlite3.OperationalError, sqlite3.IntegrityError)
        )
        if damaged:
            with suppress(OSError):
                text = f"history {self.path} was damaged ({error}); set aside as "
                text += str(set_aside(self.path))
            self._tried_at = float("-inf")
        self._trouble = text

    def _finish(self) -> None:
        if self._file is None and self._memory is not None:
            self._try_file()
        for tables in (self._file, self._memory):
            if tables is not None:
                with suppress(sqlite3.Error):
                    tables.close()
        self._file = self._memory = None
        self._tried_at = time.monotonic()


def _number(document: Document) -> int:
    number = document["number"]
    if not isinstance(number, int):
        raise TypeError(f"event number is {number!r}")
    return number
