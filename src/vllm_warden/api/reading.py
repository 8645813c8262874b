"""Answers to requests that only look: documents of the daemon, and their event streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from vllm_warden.api.json_answer import JsonAnswer
from vllm_warden.api.line_answer import LineAnswer, left_out
from vllm_warden.api.problems import Problem
from vllm_warden.api.service import Document, Service
from vllm_warden.api.stream import server_sent_events

Default = TypeVar("Default", int, None)

EVENTS_PER_ANSWER = 1000
INCIDENTS_PER_ANSWER = 100
LOG_LINES_MAX = 100_000


async def status(service: Service, _request: Request) -> Response:
    return JsonAnswer(service.status())


async def instances(service: Service, _request: Request) -> Response:
    return JsonAnswer({"instances": service.status()["instances"]})


async def instance(service: Service, request: Request) -> Response:
    return JsonAnswer(_known(service, request, service.instance(_name(request))))


async def memory(service: Service, request: Request) -> Response:
    return JsonAnswer(_known(service, request, service.memory(_name(request))))


async def instance_incidents(service: Service, request: Request) -> Response:
    _known(service, request, service.instance(_name(request)))
    limit = whole_number(request, "limit", INCIDENTS_PER_ANSWER, 1, 1000)
    return JsonAnswer({"incidents": await service.incidents(_name(request), limit)})


async def incidents(service: Service, request: Request) -> Response:
    limit = whole_number(request, "limit", INCIDENTS_PER_ANSWER, 1, 1000)
    return JsonAnswer({"incidents": await service.incidents(None, limit)})


async def incident(service: Service, request: Request) -> Response:
    text = request.path_params["id"]
    document = await service.incident(int(text)) if text.isdecimal() and len(text) < 16 else None
    if document is None:
        raise Problem(404, f"there is no incident {text}", "GET /v1/incidents lists them")
    return JsonAnswer(document)


async def events(service: Service, request: Request) -> Response:
    resume_at = request.headers.get("last-event-id", "")
    default = int(resume_at) if resume_at.isdecimal() and len(resume_at) < 16 else 0
    after = whole_number(request, "after", default, 0, 10**15)
    if _wants_stream(request):
        return _stream(request, service.follow_events(after))
    limit = whole_number(request, "limit", EVENTS_PER_ANSWER, 1, EVENTS_PER_ANSWER)
    return JsonAnswer({"events": await service.events_after(after, limit)})


async def logs(service: Service, request: Request) -> Response:
    name = _name(request)
    attempt = whole_number(request, "attempt", None, 1, 10**9)
    last = whole_number(request, "last", 200, 1, LOG_LINES_MAX)
    if _wants_stream(request):
        _known(service, request, service.instance(name))
        return _stream(request, service.follow_logs(name, attempt, last))
    lines = await service.logs(name, attempt, last)
    if lines is None:
        _known(service, request, service.instance(name))
        raise Problem(
            404,
            f"there is no log of attempt {attempt or 'any'} of {name}",
            f"GET /v1/instances/{name} lists its attempts",
        )
    return LineAnswer(lines, left_out(lines, last))


def unknown_instance(service: Service, name: str) -> Problem:
    listed = service.status()["instances"]
    names = [str(each["name"]) for each in listed] if isinstance(listed, list) else []
    known = f"the known ones are {', '.join(names)}" if names else "none is configured"
    return Problem(404, f"there is no instance {name[:64]!r}", known, known=names)


def whole_number(
    request: Request, name: str, default: Default, least: int, most: int
) -> int | Default:
    """A query parameter as an integer within bounds, or the default where it is absent."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.isdecimal() and len(text) < 17 and least <= int(text) <= most:
        return int(text)
    raise Problem(
        400, f"{name} is {text[:40]!r}", f"{name} is a whole number from {least} to {most}"
    )


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _known(service: Service, request: Request, document: Document | None) -> Document:
    if document is None:
        raise unknown_instance(service, _name(request))
    return document


def _wants_stream(request: Request) -> bool:
    follow = request.query_params.get("follow", "")
    return follow in ("1", "true") or "text/event-stream" in request.headers.get("accept", "")


def _stream(request: Request, source: AsyncIterator[Document]) -> Response:
    return StreamingResponse(
        server_sent_events(source, request.app.state.closing),
        media_type="text/event-stream",
        headers={"cache-control": "no-store"},
    )
