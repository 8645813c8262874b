"""The ASGI application: the route table with access checks, and errors as problem details."""

from __future__ import annotations

import asyncio
import http
import json
import logging
from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from vllm_warden.api import access
from vllm_warden.api.json_answer import JsonAnswer
from vllm_warden.api.openapi import describe
from vllm_warden.api.problems import MEDIA_TYPE, Problem
from vllm_warden.api.routes import ROUTES, Route
from vllm_warden.api.service import Service

_log = logging.getLogger(__name__)


def build_application(service: Service, closing: asyncio.Event) -> Starlette:
    """``closing`` set ends all event streams."""
    routes = [
        StarletteRoute(route.path, _endpoint(service, route), methods=[route.method])
        for route in ROUTES
    ]
    description: list[bytes] = []

    async def openapi(_request: Request) -> Response:
        if not description:
            description.append(json.dumps(describe()).encode())
        return Response(description[0], media_type="application/json")

    routes.append(StarletteRoute("/openapi.json", openapi, methods=["GET"]))
    application = Starlette(
        routes=routes,
        exception_handlers={Problem: _problem, HTTPException: _http_error, Exception: _bug},
    )
    application.router.redirect_slashes = False
    application.state.closing = closing
    return application


def _endpoint(service: Service, route: Route) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        if route.access == "change":
            peer: access.Peer = request.state.peer
            if not access.may_change(peer, service.admins()):
                raise Problem(403, *access.refusal(peer))
        return await route.answer(service, request)

    return endpoint


async def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 - Starlette's signature is wider than its use
    return _answer(error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - same
    path = request.url.path[:200]
    texts = {
        404: (f"there is nothing at {path}", "GET /openapi.json lists every path"),
        405: (f"{request.method[:16]} is not possible on {path}", "GET reads, POST changes"),
    }
    default = (http.HTTPStatus(error.status_code).phrase.lower(), "")
    answer = _answer(Problem(error.status_code, *texts.get(error.status_code, default)))
    answer.headers.update(error.headers or {})
    return answer


async def _bug(request: Request, error: Exception) -> Response:
    _log.error("cannot answer %s %s", request.method, request.url.path, exc_info=error)
    return _answer(
        Problem(500, f"{type(error).__name__} inside the daemon", "its own log has the traceback")
    )


def _answer(problem: Problem) -> Response:
    return JsonAnswer(problem.document(), status_code=problem.status, media_type=MEDIA_TYPE)
