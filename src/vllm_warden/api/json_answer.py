"""Answers in JSON that no text in them can break."""

from __future__ import annotations

import json

from starlette.responses import JSONResponse


class JsonAnswer(JSONResponse):
    """Halves of characters, as names of files and other people's JSON hold, stay as JSON's escapes.

    Python's own encoder refuses them, and one such name would take the whole status away.
    """

    def render(self, content: object) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")
