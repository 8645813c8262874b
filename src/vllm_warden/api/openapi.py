"""The OpenAPI description, made from the route table and the document types."""

from __future__ import annotations

import re

from vllm_warden import __version__
from vllm_warden.api import schema
from vllm_warden.api.changing import OPTIONS
from vllm_warden.api.problems import MEDIA_TYPE
from vllm_warden.api.routes import ROUTES, Route
from vllm_warden.api.shape import json_schema


def describe() -> dict[str, object]:
    """An OpenAPI 3.1 document."""
    paths: dict[str, dict[str, object]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "vllm-warden", "version": __version__},
        "paths": paths,
    }


def _operation(route: Route) -> dict[str, object]:
    content: dict[str, object] = {"application/json": {"schema": json_schema(route.document)}}
    if route.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    operation: dict[str, object] = {
        "summary": route.summary,
        "x-access": route.access,
        "parameters": _parameters(route),
        "responses": {
            "202" if route.access == "change" else "200": {
                "description": route.document.__name__,
                "content": content,
            },
            "default": {
                "description": "Problem details (RFC 9457)",
                "content": {MEDIA_TYPE: {"schema": json_schema(schema.ProblemDocument)}},
            },
        },
    }
    if route.access == "change":
        operation["requestBody"] = _request_body(route)
    return operation


def _parameters(route: Route) -> list[dict[str, object]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    in_query = [
        {"name": name, "in": "query", "description": text, "schema": {"type": "integer"}}
        for name, text in route.query.items()
    ]
    return in_path + in_query


def _request_body(route: Route) -> dict[str, object]:
    verb = route.path.rsplit("/", 1)[1]
    options = next(each for name, each in OPTIONS.items() if name == verb)
    properties = {name: json_schema(kind) for name, kind in options.items()}
    body = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"required": False, "content": {"application/json": {"schema": body}}}
