"""Writes docs/reference/api.md from the route table and the document types."""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints

from vllm_warden.api.changing import OPTIONS
from vllm_warden.api.routes import ROUTES
from vllm_warden.api.schema import SCHEMA

_INTRODUCTION = f"""\
# Socket API

Generated from the route table; rewrite it with `make docs`.

HTTP/1.1 with JSON on the Unix socket (`/run/vllm-warden/api.sock`); curl is enough:

    SOCKET=/run/vllm-warden/api.sock
    curl --unix-socket $SOCKET http://localhost/v1/status
    curl --unix-socket $SOCKET -N 'http://localhost/v1/events?after=0&follow=1'
    curl --unix-socket $SOCKET -X POST http://localhost/v1/instances/NAME/restart

**Access.** Who can connect may read: the socket has mode 0660 and the group `vllm-warden`. Changing
is for root, the daemon's own user, and the users in `admins` under `[api]`; the kernel tells the
daemon who is at the other end (`SO_PEERCRED`), and every change is recorded with that uid, the pid
and the program's name.

**Stability.** Members are added, never changed or removed, within one `schema` (now {SCHEMA}).
Ignore what you do not know. Times called `at`, `since`, `opened`, `resolved`, `launched` and
`ended` are seconds since the epoch, for display only. Maps by GPU or pid have decimal strings as
keys.

**Errors** are problem details (RFC 9457, `application/problem+json`): `status`, `title`, `detail`
says what is wrong, `hint` what to do. 400 not understood, 403 may not change, 404 no such thing
(`known` lists the instances), 405 wrong method, 409 refused now, 413 body over 64 KiB, 500 a bug,
503 more than 64 connections of one user.

**Streams** (`follow=1`, or `Accept: text/event-stream`) are server-sent events, each with one
document as `data`; `id` is the event's number, so `Last-Event-ID` resumes. A comment comes every
15 s. A reader that cannot keep up loses documents, and is told with `event: dropped` and
`{{"dropped": N}}`. Limits: a request arrives within 10 s and has at most 16 KiB of headers.

`GET /openapi.json` is the same in OpenAPI 3.1.
"""


def render() -> str:
    """The whole page."""
    lines = [
        _INTRODUCTION,
        "## Requests",
        "",
        "| request | answers with | meaning |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{route.method} {route.path}` | {route.document.__name__} | {route.summary}"
        f"{_query(route.query)}{_body(route.path, route.access)} |"
        for route in ROUTES
    ]
    lines += ["", "## Documents"]
    for document in _documents():
        lines += ["", f"### {document.__name__}", "", "| member | type |", "|---|---|"]
        for name, hint in get_type_hints(document, include_extras=True).items():
            lines.append(f"| `{name}` | {_type(hint)} |")
    return "\n".join(lines) + "\n"


def _query(query: dict[str, str]) -> str:
    return "".join(f"; `{name}`: {text}" for name, text in query.items())


def _body(path: str, access: str) -> str:
    if access != "change":
        return ""
    options = next(each for verb, each in OPTIONS.items() if path.endswith(f"/{verb}"))
    named = ", ".join(f"`{name}` ({kind.__name__})" for name, kind in options.items())
    return f"; body: {named}" if named else ""


def _documents() -> Iterator[Any]:
    """Every document type that an answer can hold, outermost first, each once."""
    waiting: list[Any] = [route.document for route in ROUTES]
    seen: dict[str, None] = {}
    while waiting:
        document = waiting.pop(0)
        if document.__name__ in seen:
            continue
        seen[document.__name__] = None
        yield document
        for hint in get_type_hints(document, include_extras=True).values():
            waiting += [each for each in _parts(hint) if typing.is_typeddict(each)]


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for argument in get_args(hint):
        yield from _parts(argument)


def _type(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is NotRequired:
        return f"{_type(get_args(hint)[0])}, may be absent"
    if origin in (Union, types.UnionType):
        return " or ".join(_type(each) for each in get_args(hint))
    if origin is list:
        return f"list of {_type(get_args(hint)[0])}"
    if origin is dict:
        return f"map to {_type(get_args(hint)[1])}"
    names = {str: "text", int: "integer", float: "number", bool: "boolean", object: "any"}
    return names.get(hint, "null" if hint is type(None) else hint.__name__)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
