"""Writes log lines in the grammar of vLLM's era: process prefix, level, time, place."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from vllm_warden.simulation.era import current

_LEVEL_COLOURS = {"INFO": "32", "WARNING": "33", "ERROR": "31"}


@dataclass(slots=True)
class Log:
    """Writes to stdout (vLLM's logger) and stderr (raw tracebacks, uvicorn, progress bars).

    ``process`` is empty while the process has no prefix. From 0.12 to 0.15 colour is on unless
    NO_COLOR is set, terminal or not.
    """

    process: str = ""
    colour: bool = field(default_factory=lambda: not os.environ.get("NO_COLOR"))

    def info_line(self, place: str, message: str) -> None:
        self._record("INFO", place, [message])

    def warning_line(self, place: str, message: str) -> None:
        self._record("WARNING", place, [message])

    def error_line(self, place: str, *lines: str) -> None:
        self._record("ERROR", place, lines)

    def plain(self, *lines: str) -> None:
        """Lines that do not come from the logger: uvicorn, raw tracebacks."""
        prefix = self._prefix()
        self._write(sys.stderr, "".join(f"{prefix}{line}\n" for line in lines))

    def shard_bar(self, text: str) -> None:
        """VLLM's own bar for checkpoint shards: every state is a line that starts with CR."""
        self.plain(f"\r{text}")

    def bar(self, text: str, *, first: bool, last: bool) -> None:
        """A tqdm bar: each state overwrites the one before, the line ends with the last one."""
        start = self._prefix() if first else ""
        self._write(sys.stderr, f"{start}\r{text}" + ("\n" if last else ""))

    def _record(self, level: str, place: str, lines: Iterable[str]) -> None:
        stamp = time.strftime("%m-%d %H:%M:%S")
        if self.colour and current().colours_levels:
            level_text = f"\x1b[{_LEVEL_COLOURS[level]}m{level}\x1b[0m"
            head = f"{level_text} \x1b[90m{stamp}\x1b[0m \x1b[90m[{place}]\x1b[0m "
        else:
            head = f"{level} {stamp} [{place}] "
        prefix = self._prefix()
        # All but the last line of a record end in CR LF (vLLM's NewLineFormatter).
        self._write(sys.stdout, "\r\n".join(f"{prefix}{head}{line}" for line in lines) + "\n")

    def _prefix(self) -> str:
        if not self.process:
            return ""
        text = f"({self.process} pid={os.getpid()})"
        era = current()
        if era.tag_colour and (self.colour or not era.heeds_no_color):
            return f"\x1b[{era.tag_colour}m{text}\x1b[0;0m "
        return f"{text} "

    @staticmethod
    def _write(stream: object, text: str) -> None:
        # One write for a record: lines of several ranks interleave, they do not mix.
        number = 2 if stream is sys.stderr else 1
        data = text.encode("utf-8", "replace")
        try:
            while data:
                data = data[os.write(number, data) :]
        except OSError:
            pass  # nobody reads any more; vLLM goes on too
