"""Errors of the API as problem details (RFC 9457), each with a hint of what to do."""

from __future__ import annotations

import http
import json
from collections.abc import Mapping

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):  # noqa: N818 - the RFC's own word
    """An answer that is an error: HTTP status, what is wrong, what to do about it."""

    def __init__(self, status: int, detail: str, hint: str = "", **extra: object) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.extra = extra

    def document(self) -> dict[str, object]:
        return problem_document(self.status, self.detail, self.hint, self.extra)


def problem_document(
    status: int, detail: str, hint: str = "", extra: Mapping[str, object] | None = None
) -> dict[str, object]:
    """The members of RFC 9457 section 3.1, ``hint``, and extension members."""
    return {
        "type": "about:blank",
        "title": http.HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "hint": hint,
        **(extra or {}),
    }


def problem_body(status: int, detail: str, hint: str = "") -> bytes:
    return json.dumps(problem_document(status, detail, hint)).encode()
