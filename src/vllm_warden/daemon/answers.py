"""Answers the API: reads what the loop and the recorder know, and posts what people ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import cast

import vllm_warden
from vllm_warden.api.schema import InstanceDocument
from vllm_warden.api.service import Accepted, ChangeRequest, Document, Refused
from vllm_warden.core.diagnose.evidence import LogRecord, newest
from vllm_warden.core.lifecycle.effects import Announce
from vllm_warden.core.lifecycle.events import Event
from vllm_warden.core.lifecycle.states import Instance
from vllm_warden.core.model import Actor
from vllm_warden.core.plan.command_line import build_argv, printable
from vllm_warden.daemon.changes import event_of
from vllm_warden.daemon.documents import instance_document
from vllm_warden.daemon.given_options import unknown_to_the_engine
from vllm_warden.daemon.line_queue import LineQueue
from vllm_warden.daemon.measured import measured_document
from vllm_warden.daemon.shell import Shell
from vllm_warden.daemon.threads import LateError

MEMORY_SAMPLES_MAX = 2000
KEPT_SECONDS = 2.0
"""A full disk must not keep an operator from stopping an engine."""


class Answers:
    """Satisfies ``api.service.Service``."""

    def __init__(
        self, shell: Shell, admins: frozenset[int], pid: int, started_wall_seconds: float
    ) -> None:
        self._shell = shell
        self._admins = admins
        self._pid = pid
        self._started = started_wall_seconds

    def admins(self) -> frozenset[int]:
        return self._admins

    def status(self) -> Document:
        shell = self._shell
        users: dict[int, list[str]] = {}
        for name, instance in shell.loop.instances.items():
            for index in instance.gpu_indices:
                users.setdefault(index, []).append(name)
        return {
            "schema": 1,
            "daemon": {
                "version": vllm_warden.__version__,
                "pid": self._pid,
                "since": self._started,
                "state_directory": str(shell.state_directory),
                "log_backend": shell.ports.log_backend.name,
                "config": None if shell.config is None else str(shell.config.path),
                "config_digest": None if shell.config is None else shell.config.digest,
                "conditions": list(shell.recorder.conditions.values()),
            },
            "gpus": [
                {
                    "index": gpu.index,
                    "uuid": gpu.uuid,
                    "name": gpu.name,
                    "total_bytes": gpu.total_bytes,
                    "free_bytes": gpu.free_bytes,
                    "error": gpu.error,
                    "instances": users.get(gpu.index, []),
                    "holders": [
                        {
                            "pid": holder.pid,
                            "used_bytes": holder.used_bytes,
                            "user": holder.user,
                            "command": holder.command,
                            "ours": holder.ours,
                        }
                        for holder in gpu.holders
                    ],
                }
                for gpu in shell.gpu_view.readings
            ],
            "gpus_problem": shell.gpu_view.problem,
            "instances": [self._entry(instance) for instance in shell.loop.instances.values()],
        }

    def _entry(self, instance: Instance) -> InstanceDocument:
        shell, name = self._shell, instance.spec.name
        moments = {"since": self._wall(instance.since_seconds)}
        if instance.gate_since_seconds is not None:
            moments["gate"] = self._wall(instance.gate_since_seconds)
        if instance.next_try_seconds is not None:
            moments["next_try"] = self._wall(instance.next_try_seconds)
        return instance_document(
            instance, shell.live.get(name), shell.recorder.last_incident(name), moments
        )

    def _wall(self, at_seconds: float) -> float:
        clock = self._shell.ports.clock
        return clock.wall_seconds() - (clock.now_seconds() - at_seconds)

    def instance(self, name: str) -> Document | None:
        found = self._shell.loop.instances.get(name)
        if found is None:
            return None
        settings = {**found.asked, **found.changes}
        attempts = self._shell.recorder.attempts.get(name, [])
        incident = self._shell.recorder.last_incidents.get(name)
        return {
            **self._entry(found),
            "attempts": attempts,
            "launch_command": printable(build_argv(found.spec, settings, found.engine)),
            "explanation": self._explanation(found),
            "incident": incident,
            "measured": measured_document(attempts, incident),
        }

    def _explanation(self, instance: Instance) -> list[str]:
        lines = [instance.reason]
        if instance.held_by is not None:
            lines.append(f"hold asked by {instance.held_by}: it will not be relaunched")
        if not instance.spec.gpus:
            lines.append("a CPU engine: no gate and no GPU figures")
        if instance.engine.problem is not None:
            lines.append(instance.engine.problem)
        return lines

    def memory(self, name: str) -> Document | None:
        if name not in self._shell.loop.instances:
            return None
        live = self._shell.live.get(name)
        samples = [] if live is None else list(live.samples)[-MEMORY_SAMPLES_MAX:]
        return {
            "instance": name,
            "attempt": 0 if live is None else live.number,
            "total_bytes": {}
            if live is None
            else {str(gpu): total for gpu, total in live.gpu_total_bytes.items()},
            "samples": [
                {
                    "at": self._wall(sample.at_seconds),
                    "at_seconds": sample.at_seconds,
                    "phase": sample.phase.value,
                    "used_bytes": {str(gpu): used for gpu, used in sample.used_bytes.items()},
                }
                for sample in samples
            ],
        }

    async def incidents(self, name: str | None, limit: int) -> list[Document]:
        return await self._shell.recorder.history.incidents(name, limit)

    async def incident(self, number: int) -> Document | None:
        for document in self._shell.recorder.last_incidents.values():
            if document["number"] == number:
                return cast("Document", document)
        return await self._shell.recorder.history.incident(number)

    async def events_after(self, after: int, limit: int) -> list[Document]:
        return await self._shell.recorder.events_after(after, limit)

    def follow_events(self, after: int) -> AsyncIterator[Document]:
        return self._shell.recorder.follow(after)

    async def logs(self, name: str, attempt: int | None, last: int) -> list[Document] | None:
        if name not in self._shell.loop.instances:
            return None
        live = self._shell.live.get(name)
        if live is not None and attempt in (None, live.number):
            return [_line(live.number, record) for record in newest(live.records(), last)]
        return await self._old_lines(name, attempt, last)

    async def _old_lines(self, name: str, attempt: int | None, last: int) -> list[Document] | None:
        for document in self._shell.recorder.attempts.get(name, []):
            number, launch_id = document.get("number"), document.get("launch_id")
            if attempt not in (None, number) or not isinstance(number, int):
                continue
            backend = self._shell.ports.log_backend
            try:
                records = await self._shell.lanes.old_logs.call(
                    lambda: backend.read_attempt(name, number, str(launch_id), last)  # noqa: B023
                )
            except LateError:
                return []
            return [_line(number, record) for record in records]
        return [] if attempt is None else None

    async def follow_logs(
        self, name: str, attempt: int | None, last: int
    ) -> AsyncIterator[Document]:
        queue = LineQueue()

        def listen(instance: str, number: int, records: Sequence[LogRecord]) -> None:
            if instance != name or attempt not in (None, number):
                return
            for record in records:
                queue.put(_line(number, record))

        self._shell.line_listeners.add(listen)
        try:
            for line in await self.logs(name, attempt, last) or []:
                yield line
            while True:
                yield await queue.take()
        finally:
            self._shell.line_listeners.discard(listen)

    async def change(self, request: ChangeRequest) -> Accepted | Refused:
        shell, name = self._shell, request.instance
        if name not in shell.loop.instances:
            known = ", ".join(sorted(shell.loop.instances)) or "none"
            return Refused(404, f"there is no instance {name}", f"known instances: {known}")
        if shell.closing:
            return Refused(409, "the daemon is stopping", "try again when it is back")
        by = _who(request.actor)
        event = await self._event(request, by)
        if isinstance(event, Refused):
            return event
        data = {
            "verb": request.verb,
            "uid": request.actor.uid,
            "pid": request.actor.pid,
            **({"options": dict(request.options)} if request.options else {}),
        }
        told = Announce("change-requested", f"{request.verb} asked by {by}", data)
        number = shell.recorder.announce(name, told)
        shell.post(name, event)
        await self._kept()
        return Accepted(number)

    async def _event(self, request: ChangeRequest, by: str) -> Event | Refused:
        def event() -> Event | Refused:
            shell = self._shell
            instance = shell.instance(request.instance)
            return event_of(instance, request, by, shell.now(), shell.config)

        found = event()
        if isinstance(found, Refused) or "set" not in request.options:
            return found
        # meanwhile the instance may have gone on
        return await unknown_to_the_engine(self._shell, request) or event()

    async def _kept(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEPT_SECONDS):
                await self._shell.loop.settled()
                await self._shell.recorder.state_written()


def _who(actor: Actor) -> str:
    return f"uid {actor.uid} ({actor.command or '?'}, pid {actor.pid})"


def _line(attempt: int, record: LogRecord) -> Document:
    return {"attempt": attempt, "line": record.number, "text": record.text}
