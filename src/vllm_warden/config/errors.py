"""What is wrong in the text of the settings: every error at once, each with its place."""

from __future__ import annotations

import json
from dataclasses import dataclass

from vllm_warden.core.plain_text import one_line


@dataclass(frozen=True, slots=True)
class ConfigurationError:
    """One mistake in a settings file or in a ``WARDEN_...`` variable.

    ``file`` is a path or ``environment variable NAME``; ``key`` the dotted TOML path, empty when
    the whole file is meant; ``value`` what was written, None when it is missing or secret.
    """

    file: str
    key: str
    value: object
    reason: str
    allowed: str = ""
    hint: str = ""
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        """One line in house style, the hint on a second one."""
        place = self.file
        if self.line is not None:
            place += f":{self.line}" if self.column is None else f":{self.line}:{self.column}"
        subject = self.key or "this file"
        if self.key and self.value is not None:
            subject += f" = {shown(self.value)}"
        text = one_line(f"{place}: cannot use {subject}: {self.reason}")
        if self.allowed:
            text += f" (allowed: {self.allowed})"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def to_document(self) -> dict[str, object]:
        """The error as a JSON object, for ``check-config --json``."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "key": self.key,
            "value": self.value if self.value is None else shown(self.value),
            "reason": self.reason,
            "allowed": self.allowed,
            "hint": self.hint,
        }


class ConfigurationInvalid(Exception):  # noqa: N818 -- it holds errors, it is not one of them
    """The text of the settings cannot be used; ``errors`` has all of them, in file order."""

    def __init__(self, errors: tuple[ConfigurationError, ...]) -> None:
        self.errors = errors
        super().__init__("\n".join(str(error) for error in errors))


# A pasted certificate or prompt must not fill the screen.
_SHOWN_MAX = 80


def shown(value: object) -> str:
    """The value nearly as TOML writes it, cut to one short line."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
