"""Reads an instance's environment_file: KEY=VALUE lines with secrets."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# 0640: the owner writes, the group reads, others have nothing.
_TOO_OPEN = stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO
# The largest file that is plausibly a list of secrets; a device or a log named by mistake is not.
_SIZE_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class EnvironmentFile:
    """What the file holds; ``malformed`` are numbers of lines that are no KEY=VALUE.

    ``unreadable`` says why there is nothing, ``warning`` what is unsafe about the file.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    malformed: tuple[int, ...] = ()
    unreadable: str | None = None
    warning: str | None = None


def read_environment_file(path: Path) -> EnvironmentFile:
    """Read the file; never raises, and never repeats a value in a message.

    Blank lines and lines that begin with ``#`` or ``;`` are skipped, ``export`` is tolerated, and
    one pair of quotes around a value is removed, as in systemd's EnvironmentFile=.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return EnvironmentFile(unreadable="it is no regular file")
        with path.open("rb") as file:
            # Bounded by the read itself: the size in the status may be stale, or 0 in /proc.
            raw = file.read(_SIZE_MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return EnvironmentFile(unreadable="it is not UTF-8 text")
    except OSError as error:
        return EnvironmentFile(unreadable=(error.strerror or str(error)).lower())
    if len(raw) > _SIZE_MAX_BYTES:
        return EnvironmentFile(unreadable=f"it is larger than {_SIZE_MAX_BYTES} bytes")
    values, malformed = _parse(text)
    return EnvironmentFile(values, malformed, warning=_warning(stat.S_IMODE(status.st_mode)))


def _warning(mode: int) -> str | None:
    if not mode & _TOO_OPEN:
        return None
    return f"its mode {mode:04o} lets others in; use 0640 or stricter"


def _parse(text: str) -> tuple[dict[str, str], tuple[int, ...]]:
    values: dict[str, str] = {}
    malformed: list[int] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        name, separator, value = line.removeprefix("export ").partition("=")
        if not separator or not _NAME.fullmatch(name.strip()) or "\0" in value:
            malformed.append(number)
            continue
        values[name.strip()] = _unquoted(value.strip())
    return values, tuple(malformed)


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
