"""The route table: method, path, access, what answers, and the document that it answers with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response

from vllm_warden.api import changing, reading, schema
from vllm_warden.api.access import Access
from vllm_warden.api.service import Service, Verb

Answer = Callable[[Service, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    access: Access
    answer: Answer
    summary: str
    document: type
    query: dict[str, str] = field(default_factory=dict)
    streams: bool = False


_FOLLOW = "1 for server-sent events"

READING = (
    Route("GET", "/v1/status", "read", reading.status, "Everything at a glance",
          schema.StatusDocument),
    Route("GET", "/v1/instances", "read", reading.instances, "All instances",
          schema.InstancesDocument),
    Route("GET", "/v1/instances/{name}", "read", reading.instance,
          "One instance with its attempts and newest incident", schema.InstanceDetailDocument),
    Route("GET", "/v1/instances/{name}/memory", "read", reading.memory,
          "Memory timeline of the newest attempt", schema.MemoryDocument),
    Route("GET", "/v1/instances/{name}/incidents", "read", reading.instance_incidents,
          "Incidents of one instance, newest first", schema.IncidentsDocument,
          {"limit": "at most this many"}),
    Route("GET", "/v1/instances/{name}/logs", "read", reading.logs,
          "Lines of the engine, redacted", schema.LogLinesDocument,
          {"attempt": "the newest otherwise", "last": "lines from the end (200)",
           "follow": _FOLLOW}, streams=True),
    Route("GET", "/v1/incidents", "read", reading.incidents, "All incidents, newest first",
          schema.IncidentsDocument, {"limit": "at most this many"}),
    Route("GET", "/v1/incidents/{id}", "read", reading.incident, "One incident in full",
          schema.IncidentDocument),
    Route("GET", "/v1/events", "read", reading.events, "What happened, oldest first",
          schema.EventsDocument,
          {"after": "only events with a higher number", "limit": "at most this many",
           "follow": _FOLLOW}, streams=True),
)  # fmt: skip

_MEANS = {
    "forget": "Forget the learned settings of an instance",
    "accept": "Take over the settings in force, which the settings file asks for by now",
}

CHANGING = tuple(
    Route(
        "POST",
        f"/v1/instances/{{name}}/{verb}",
        "change",
        partial(changing.change, verb=verb),
        f"{_MEANS.get(verb, f'{verb.capitalize()} an instance')}; the answer names the event that "
        "records it",
        schema.AcceptedDocument,
    )
    for verb in get_args(Verb)
)

ROUTES = READING + CHANGING
