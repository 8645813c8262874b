"""What the API asks of the daemon. The daemon implements it; the API knows nothing else of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from vllm_warden.core.model import Actor

Verb = Literal["start", "stop", "restart", "hold", "resume", "forget", "accept"]

Document = dict[str, object]
"""A JSON object as it goes over the wire (docs/reference/api.md)."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The change was taken; ``event`` is the number of the event that records it."""

    event: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The change was not taken; status is the HTTP status, hint says what to do."""

    status: int
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """One POST: which instance, what, by whom, with which options (``now``, ...)."""

    instance: str
    verb: Verb
    actor: Actor
    options: Mapping[str, object] = field(default_factory=dict)


class Service(Protocol):
    """Reading never waits for an engine; changing returns at once with an event number."""

    def status(self) -> Document:
        """``{"schema": 1, "daemon": {...}, "gpus": [...], "instances": [...]}``."""

    def instance(self, name: str) -> Document | None:
        """One instance: its status entry plus attempts, explanation and launch command."""

    def memory(self, name: str) -> Document | None:
        """The memory timeline of the newest attempt."""

    async def incidents(self, name: str | None, limit: int) -> list[Document]:
        """Newest first, without log excerpts."""

    async def incident(self, number: int) -> Document | None: ...

    async def events_after(self, after: int, limit: int) -> list[Document]: ...

    def follow_events(self, after: int) -> AsyncIterator[Document]:
        """Old events after the number, then new ones as they happen."""

    async def logs(self, name: str, attempt: int | None, last: int) -> list[Document] | None:
        """Lines of one attempt (default: the newest), oldest first; the last 8 MiB at most."""

    def follow_logs(self, name: str, attempt: int | None, last: int) -> AsyncIterator[Document]:
        """The last lines, then new ones, across attempts when none was named."""

    async def change(self, request: ChangeRequest) -> Accepted | Refused:
        """Answers once what was asked for would outlive the daemon, or after two seconds."""

    def admins(self) -> frozenset[int]:
        """Uids that may change things beside root and the daemon's own."""
