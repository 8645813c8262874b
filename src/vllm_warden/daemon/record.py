"""Keeps what happened: numbers events, feeds followers, writes history and wanted states.

Best effort by contract: the daemon runs on when a disk is full or a database is broken, and says
so as a condition.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Protocol, cast

import structlog

from vllm_warden.adapters.daemon_threads import DaemonThreads
from vllm_warden.api.schema import IncidentDocument, LastIncidentDocument
from vllm_warden.core.lifecycle.effects import Announce, RecordIncident
from vllm_warden.core.model import Phase
from vllm_warden.daemon.documents import (
    failure_document,
    incident_document,
    incident_in_short,
)
from vllm_warden.daemon.ports import Clock

log = structlog.get_logger(__name__)

EVENTS_IN_MEMORY = 2000
FOLLOWER_QUEUE = 1000
ATTEMPTS_IN_MEMORY = 20
FURTHER_FAILURES_MAX = 20
"""Of one incident; the first one stays, and the oldest after it go."""
STATE_RETRY_SECONDS = 3.0
INCIDENT_FIRST_SECONDS = 1.0
"""So long the state waits for the incident of the death that it counts: the other way round a
daemon that is killed between the two would diagnose that death again, and count it twice."""
Document = dict[str, object]


class LastNumbers(Protocol):
    """Where numbering goes on."""

    event: int
    incident: int


class HistoryStore(Protocol):
    """What is asked of the history database; every method may answer late, none raises."""

    async def append_event(self, document: Document) -> None: ...
    async def save_incident(self, number: int, document: Document) -> None: ...
    async def save_failure(
        self, incident: tuple[int, Document], instance: str, attempt: tuple[int, Document]
    ) -> None: ...
    async def save_attempt(self, instance: str, number: int, document: Document) -> None: ...
    async def save_learned(self, instance: str, document: Document | None) -> None: ...
    async def incidents(self, instance: str | None, limit: int) -> list[Document]: ...
    async def incident(self, number: int) -> Document | None: ...
    async def attempts(self, instance: str, limit: int) -> list[Document]: ...
    async def events_after(self, after: int, limit: int) -> list[Document]: ...
    async def last_numbers(self) -> LastNumbers: ...
    def report_to(self, on_condition: Callable[[str | None], None]) -> None: ...


class StateWriter(Protocol):
    def write(self, document: Document) -> None:
        """Durable when it returns. Raises OSError."""


class Recorder:
    """Everything that is kept about events and incidents."""

    def __init__(
        self, history: HistoryStore, state: StateWriter, clock: Clock, first_event: int
    ) -> None:
        self.history = history
        self.conditions: dict[str, str] = {}
        self.event_number = first_event
        self.incident_number = 0
        self.open_incidents: dict[str, IncidentDocument] = {}
        self.last_incidents: dict[str, IncidentDocument] = {}
        self._state = state
        self._clock = clock
        self.attempts: dict[str, list[Document]] = {}
        self._events: deque[Document] = deque(maxlen=EVENTS_IN_MEMORY)
        self._followers: set[asyncio.Queue[Document]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: set[asyncio.Task[None]] = set()
        self._state_thread = DaemonThreads("state file")
        self._state_pending: Document | None = None
        self._state_writing = False
        self._settling = asyncio.Event()
        self._state_written = asyncio.Event()
        self._state_written.set()
        history.report_to(self._history_condition)

    def announce(self, instance: str, announcement: Announce) -> int:
        """Number, log, publish and store one event; returns its number."""
        self.event_number += 1
        document: Document = {
            "number": self.event_number,
            "at": self._clock.wall_seconds(),
            "instance": instance,
            "event": announcement.event,
            "text": announcement.text,
            "data": dict(announcement.data),
        }
        log.info(announcement.event, instance=instance, text=announcement.text)
        self._events.append(document)
        for queue in self._followers:
            if queue.full():
                queue.get_nowait()  # the oldest goes; the API tells a slow reader of gaps
            queue.put_nowait(document)
        self._later(self.history.append_event(document))
        return self.event_number

    def open_incident(self, instance: str, effect: RecordIncident) -> IncidentDocument:
        """Number and store a failure, or add it to the open incident that it belongs to.

        The attempt has ended by the same write: an end that is kept without its incident would
        never be told by a later daemon, and an incident without the end would be told twice.
        """
        opened = self.open_incidents.get(instance)
        if effect.continues and opened is not None:
            return self._continue_incident(instance, opened, effect)
        self.incident_number += 1
        document = incident_document(
            self.incident_number, instance, self._clock.wall_seconds(), effect
        )
        if opened is not None:
            self._close(opened, f"followed by incident {self.incident_number}")
        self.open_incidents[instance] = document
        self.last_incidents[instance] = document
        self._save_failure(document, effect)
        text = f"incident {document['number']}: {document['diagnosis'].get('summary', '')}"
        self.announce(instance, Announce("incident-opened", text, {"incident": document["number"]}))
        return document

    def _continue_incident(
        self, instance: str, document: IncidentDocument, effect: RecordIncident
    ) -> IncidentDocument:
        failure = failure_document(self._clock.wall_seconds(), effect)
        document["further"] = [*document["further"], failure][-FURTHER_FAILURES_MAX:]
        document["failures"] += 1
        document["recovered"] = None
        self._save_failure(document, effect)
        number, summary = document["number"], failure["diagnosis"].get("summary", "")
        text = f"incident {number} goes on, failure {document['failures']}: {summary}"
        self.announce(instance, Announce("incident-continued", text, {"incident": number}))
        return document

    def recover_incident(self, instance: str, recovery: str) -> None:
        """Note when the instance was ready again; it may have been noted before."""
        document = self.open_incidents.get(instance)
        if document is None or document["recovered"] is not None:
            return
        document["recovered"] = self._clock.wall_seconds()
        self._save(document)
        text = f"incident {document['number']} has recovered, and ends with the soak: {recovery}"
        self.announce(
            instance, Announce("incident-recovered", text, {"incident": document["number"]})
        )

    def resolve_incident(self, instance: str, resolution: str) -> None:
        document = self.open_incidents.pop(instance, None)
        if document is None:
            return
        self._close(document, resolution)
        text = f"incident {document['number']} resolved: {resolution}"
        self.announce(
            instance, Announce("incident-resolved", text, {"incident": document["number"]})
        )

    def last_incident(self, instance: str) -> LastIncidentDocument | None:
        document = self.last_incidents.get(instance)
        return None if document is None else incident_in_short(document)

    def save_attempt(self, instance: str, number: int, document: Document) -> None:
        """Keep how an attempt was launched; how it ended is added later."""
        self._keep_attempt(instance, number, document)
        self._later(self.history.save_attempt(instance, number, document))

    def _keep_attempt(self, instance: str, number: int, document: Document) -> None:
        kept = self.attempts.setdefault(instance, [])
        kept[:] = [one for one in kept if one.get("number") != number][: ATTEMPTS_IN_MEMORY - 1]
        kept.insert(0, document)

    def note_attempt(self, instance: str, number: int, more: Document) -> None:
        """Add to what is kept of an attempt."""
        document = self._attempt_with(instance, number, more)
        if document is not None:
            self._later(self.history.save_attempt(instance, number, document))

    def _attempt_with(self, instance: str, number: int, more: Document) -> Document | None:
        for document in self.attempts.get(instance, ()):
            if document.get("number") == number:
                self._keep_attempt(instance, number, {**document, **more})
                return {**document, **more}
        return None

    def forget_unseen(self, found: Mapping[str, int]) -> None:
        """Attempts without an end are lost, but for those that are taken over."""
        for name, kept in self.attempts.items():
            self.attempts[name] = [
                document
                if document.get("ended") or document.get("number") == found.get(name)
                else {**document, "outcome": "lost with the daemon"}
                for document in kept
            ]

    def stop_attempt(
        self, instance: str, number: int, phase: Phase, exit_status: int | None
    ) -> None:
        """Keep that an attempt has ended as it was asked to; the others end in an incident."""
        self.note_attempt(instance, number, self._end(phase, "stopped", exit_status))

    def _end(self, phase: Phase | None, outcome: str, exit_status: int | None) -> Document:
        return {
            "ended": self._clock.wall_seconds(),
            "phase": None if phase is None else phase.value,
            "outcome": outcome,
            "exit_status": exit_status,
        }

    def save_learned(self, instance: str, document: Document) -> None:
        self._later(self.history.save_learned(instance, document))

    def save_state(self, document: Document) -> None:
        """Write the state file in its thread; while one write runs only the newest waits.

        A write that fails is tried again every few seconds, and once more by ``settle``: a stop
        that was asked for while the disk was full must not be undone at the next start.
        """
        self._state_pending = document
        self._state_written.clear()
        if not self._state_writing:
            self._state_writing = True
            self._later(self._write_states())

    async def _write_states(self) -> None:
        try:
            while self._state_pending is not None:
                if self._failures:
                    await asyncio.wait(set(self._failures), timeout=INCIDENT_FIRST_SECONDS)
                document, self._state_pending = self._state_pending, None
                if await self._write_state(document):
                    continue
                self._state_pending = self._state_pending or document
                if self._settling.is_set():
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._settling.wait(), STATE_RETRY_SECONDS)
        finally:
            self._state_writing = False
            if self._state_pending is None:
                self._state_written.set()

    async def state_written(self) -> None:
        """Return once the newest state is on the disk."""
        await self._state_written.wait()

    async def _write_state(self, document: Document) -> bool:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._state_thread, self._state.write, document)
        except OSError as error:
            text = f"cannot write the state file: {error.strerror or error}; "
            text += "what was asked since then is lost if the daemon ends before it can be written"
            self.set_condition("state-file", text)
            return False
        self.set_condition("state-file", None)
        return True

    async def events_after(self, after: int, limit: int) -> list[Document]:
        """Old events, from memory where it reaches back far enough."""
        oldest = self._events[0]["number"] if self._events else None
        if isinstance(oldest, int) and after >= oldest - 1:
            found = [event for event in self._events if cast("int", event["number"]) > after]
            return found[:limit]
        return await self.history.events_after(after, limit)

    async def follow(self, after: int) -> AsyncIterator[Document]:
        """Old events after the number, then new ones for ever."""
        queue: asyncio.Queue[Document] = asyncio.Queue(FOLLOWER_QUEUE)
        self._followers.add(queue)
        try:
            last = after
            for event in await self.events_after(after, EVENTS_IN_MEMORY):
                last = max(last, cast("int", event["number"]))
                yield event
            while True:
                event = await queue.get()
                if cast("int", event["number"]) > last:
                    last = cast("int", event["number"])
                    yield event
        finally:
            self._followers.discard(queue)

    async def settle(self, limit_seconds: float = 5.0) -> None:
        """Wait for what is being written, within the limit; a failed state is tried once more."""
        self._settling.set()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=limit_seconds)
        self._settling.clear()
        if self._state_pending is not None:
            log.error("state-not-written", text=self.conditions.get("state-file", ""))

    def set_condition(self, key: str, text: str | None) -> None:
        """Raise, change or clear (None) a lasting condition shown in ``status``."""
        if text is None:
            self.conditions.pop(key, None)
        elif self.conditions.get(key) != text:
            self.conditions[key] = text
            log.warning("condition", key=key, text=text)

    def _history_condition(self, text: str | None) -> None:
        """A history that works again may hold higher numbers than ours: they never repeat."""
        self.set_condition("history", text)
        if text is None:
            self._later(self._catch_up())

    async def _catch_up(self) -> None:
        numbers = await self.history.last_numbers()
        self.event_number = max(self.event_number, numbers.event)
        self.incident_number = max(self.incident_number, numbers.incident)

    def _close(self, document: IncidentDocument, resolution: str) -> None:
        document["resolved"] = self._clock.wall_seconds()
        document["resolution"] = resolution
        self._save(document)

    def _save(self, document: IncidentDocument) -> None:
        """As it is now: it may go on before this is written."""
        kept = cast("Document", {**document})
        self._later(self.history.save_incident(document["number"], kept))

    def _save_failure(self, document: IncidentDocument, effect: RecordIncident) -> None:
        instance, evidence = document["instance"], effect.evidence
        end = self._end(evidence.reached, "died", evidence.exit_status)
        attempt = self._attempt_with(instance, effect.attempt, end)
        if attempt is None:
            self._save(document)
            return
        incident = (document["number"], cast("Document", {**document}))
        saving = self.history.save_failure(incident, instance, (effect.attempt, attempt))
        task = self._later(saving)
        self._failures.add(task)
        task.add_done_callback(self._failures.discard)

    def _later(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_report)
        return task


def _report(task: asyncio.Task[None]) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        error = task.exception()
        if error is not None:
            log.error("record-failed", error=str(error), kind=type(error).__name__)
