"""Keeps the small state that must survive a crash (wanted states, envelopes) in one JSON file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

Document = dict[str, object]


class StateFile:
    """One JSON object, replaced as a whole: readers see the old or the new one, never a mix."""

    def __init__(self, path: Path, is_whole: Callable[[Document], bool] = lambda _: True) -> None:
        """``is_whole`` says of an object whether it can be what was written."""
        self.path = path
        self._is_whole = is_whole

    def read(self) -> tuple[Document, str | None]:
        """The document (empty when there is none) and what was wrong with the file, if anything.

        A file that cannot be parsed, or holds something else, is set aside as ``NAME.corrupt``,
        not deleted.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return {}, None
        except OSError as error:
            return {}, f"cannot read {self.path}: {error.strerror}"
        try:
            document = json.loads(content)
        except ValueError:
            document = None
        if isinstance(document, dict) and self._is_whole(document):
            return document, None
        return {}, self._set_aside()

    def write(self, document: Document) -> None:
        """Durable when it returns (fsync of file and directory). Raises OSError."""
        content = json.dumps(document, indent=1, sort_keys=True).encode()
        directory = self.path.parent
        fd, temporary = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=directory)  # mode 0600
        try:
            with os.fdopen(fd, "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(opened.fileno())
            Path(temporary).replace(self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_directory(directory)

    def _set_aside(self) -> str:
        aside = self.path.with_name(f"{self.path.name}.corrupt")
        try:
            self.path.replace(aside)
        except OSError as error:
            return f"cannot read {self.path}: it is damaged, nor set it aside: {error.strerror}"
        return f"cannot read {self.path}: it is damaged; set aside as {aside}"


def _sync_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
