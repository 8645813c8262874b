"""Answers to requests that change something: read the options, ask the daemon, say which event."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import Response

from vllm_warden.api.access import Peer, actor_of
from vllm_warden.api.json_answer import JsonAnswer
from vllm_warden.api.problems import Problem
from vllm_warden.api.reading import unknown_instance
from vllm_warden.api.service import ChangeRequest, Refused, Service, Verb

BODY_MAX_BYTES = 64 * 1024

OPTIONS: dict[Verb, dict[str, type]] = {
    "start": {"retry_capacity": bool},
    "stop": {"now": bool},
    "restart": {"now": bool, "retry_capacity": bool, "set": dict},
    "hold": {},
    "resume": {},
    "forget": {},
    "accept": {},
}


async def change(service: Service, request: Request, verb: Verb) -> Response:
    """202 with the number of the event that records the change."""
    name = str(request.path_params["name"])
    options = _options(verb, await _body(request))
    if service.instance(name) is None:
        raise unknown_instance(service, name)
    peer: Peer = request.state.peer
    answer = await service.change(ChangeRequest(name, verb, actor_of(peer), options))
    if isinstance(answer, Refused):
        raise Problem(answer.status, answer.reason, answer.hint)
    return JsonAnswer({"event": answer.event}, status_code=202)


async def _body(request: Request) -> bytes:
    """The whole body; more than 64 KiB is refused before it is read."""
    limit = f"a body has at most {BODY_MAX_BYTES} bytes"
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MAX_BYTES:
            raise Problem(413, "the body is too large", limit)
    return bytes(body)


def _options(verb: Verb, body: bytes) -> dict[str, object]:
    allowed = OPTIONS[verb]
    example = f"send no body or a JSON object with {', '.join(allowed) or 'nothing in it'}"
    if not body.strip():
        return {}
    try:
        options = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(400, "the body is not JSON", example) from None
    if not isinstance(options, dict):
        raise Problem(400, "the body is not a JSON object", example)
    for name, value in options.items():
        if name not in allowed:
            raise Problem(400, f"{verb} has no option {name[:40]!r}", example)
        if not isinstance(value, allowed[name]):
            raise Problem(400, f"{name} is not a {allowed[name].__name__}", example)
    return options
