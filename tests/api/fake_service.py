"""A Service whose answers are plain data, for tests of the API and of the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast

from vllm_warden.api.service import Accepted, ChangeRequest, Document, Refused


@dataclass
class FakeService:
    """``on_change`` may move states; ``publish`` makes an event as the daemon would."""

    document: Document
    details: dict[str, Document] = field(default_factory=dict)
    incident_documents: list[Document] = field(default_factory=list)
    log_lines: list[Document] = field(default_factory=list)
    admin_uids: frozenset[int] = frozenset()
    refusal: Refused | None = None
    changes: list[ChangeRequest] = field(default_factory=list)
    events: list[Document] = field(default_factory=list)
    streams_open: int = 0

    def __post_init__(self):
        self.news = asyncio.Event()

    def publish(self, instance: str, event: str, text: str) -> int:
        number = len(self.events) + 1
        self.events.append(
            {"number": number, "at": 0.0, "instance": instance, "event": event, "text": text}
        )
        self.news.set()
        self.news = asyncio.Event()
        return number

    def status(self) -> Document:
        return self.document

    def instance(self, name: str) -> Document | None:
        for entry in cast("list[Document]", self.document["instances"]):
            if entry["name"] == name:
                detail: Document = {
                    "attempts": [],
                    "launch_command": "",
                    "explanation": [],
                    "incident": None,
                    "measured": None,
                }
                return {**entry, **detail, **self.details.get(name, {})}
        return None

    def memory(self, name: str) -> Document | None:
        if self.instance(name) is None:
            return None
        return {"instance": name, "attempt": 1, "total_bytes": {}, "samples": []}

    async def incidents(self, name: str | None, limit: int) -> list[Document]:
        found = [i for i in self.incident_documents if name in (None, i["instance"])]
        return found[:limit]

    async def incident(self, number: int) -> Document | None:
        return next((i for i in self.incident_documents if i["number"] == number), None)

    async def events_after(self, after: int, limit: int) -> list[Document]:
        return self.events[after : after + limit]

    async def follow_events(self, after: int) -> AsyncIterator[Document]:
        self.streams_open += 1
        try:
            while True:
                for document in self.events[after:]:
                    after += 1
                    yield document
                news = self.news
                if after >= len(self.events):
                    await news.wait()
        finally:
            self.streams_open -= 1

    async def logs(self, name: str, attempt: int | None, last: int) -> list[Document] | None:
        if self.instance(name) is None or attempt == 99:
            return None
        lines = [line for line in self.log_lines if attempt in (None, line["attempt"])]
        return lines[len(lines) - min(last, len(lines)) :]

    async def follow_logs(
        self, name: str, attempt: int | None, last: int
    ) -> AsyncIterator[Document]:
        for line in await self.logs(name, attempt, last) or []:
            yield line

    async def change(self, request: ChangeRequest) -> Accepted | Refused:
        self.changes.append(request)
        if self.refusal is not None:
            return self.refusal
        return Accepted(self.publish(request.instance, f"{request.verb}_asked", request.verb))

    def admins(self) -> frozenset[int]:
        return self.admin_uids
